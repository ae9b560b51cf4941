package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// The tables of kube-scheduler's own tests of its plugins hold many more cases than
// code that draws would meet. They are not copied: the tests run as they are, with a recorder
// compiled into the plugins (an overlay of the Go command), which writes down what the
// plugins are asked. That is data, and is asked of the whole framework again.

//go:embed recorder/recorder.go.txt
var recorderSource string

// tabled are the plugins' packages whose tests are run.
var tabled = []string{
	"defaultpreemption", "imagelocality", "interpodaffinity", "nodeaffinity", "nodeports", "noderesources", "nodeunschedulable", "nodevolumelimits",
	"podtopologyspread", "tainttoleration", "volumebinding", "volumerestrictions", "volumezone",
}

// record is a line of the recorder.
type record struct {
	Plugin  string            `json:"plugin"`
	Args    json.RawMessage   `json:"args"`
	Pod     *v1.Pod           `json:"pod"`
	Nodes   []*v1.Node        `json:"nodes"`
	Pods    []*v1.Pod         `json:"pods"`
	Objects []json.RawMessage `json:"objects"`
}

// tables runs the tests and returns what they asked, as clusters. Some of the tests
// change objects while they ask, so that the clusters can be a few more or less from
// one time to the next.
func tables(ctx context.Context) ([]*cluster, error) {
	dir, err := os.MkdirTemp("", "tables")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	modules, err := mirror(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []*cluster
	for _, name := range tabled {
		path := "k8s.io/kubernetes/pkg/scheduler/framework/plugins/" + name
		overlay, err := recording(ctx, modules, path, filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		into := filepath.Join(dir, name+".jsonl")
		cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-modfile", modules, "-overlay", overlay, path)
		cmd.Env = append(os.Environ(), "PEER_RECORD="+into)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("test %s: %w\n%s", name, err, text)
		}
		clusters, err := readRecords(into)
		if err != nil {
			return nil, err
		}
		out = append(out, clusters...)
	}
	return out, nil
}

// mirror writes a go.mod that has kube-scheduler's module behind a link: the Go
// command lets nobody replace files in its cache.
func mirror(ctx context.Context, dir string) (string, error) {
	const module = "k8s.io/kubernetes"
	text, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", module, err)
	}
	link := filepath.Join(dir, "kubernetes")
	if err := os.Symlink(strings.TrimSpace(string(text)), link); err != nil {
		return "", err
	}
	text, err = exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	from := strings.TrimSuffix(strings.TrimSpace(string(text)), ".mod")
	to := filepath.Join(dir, "go")
	for _, suffix := range []string{".mod", ".sum"} {
		data, err := os.ReadFile(from + suffix)
		if err != nil {
			return "", err
		}
		if suffix == ".mod" {
			data = append(data, "\nreplace "+module+" => "+link+"\n"...)
		}
		if err := os.WriteFile(to+suffix, data, 0o644); err != nil {
			return "", err
		}
	}
	return to + ".mod", nil
}

// recording writes the overlay with which a plugin's package records what it is
// asked.
func recording(ctx context.Context, modules, path, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-modfile", modules, "-f", "{{.Name}}\n{{.Dir}}\n{{range .GoFiles}}{{.}}\n{{end}}", path)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("list %s: %w", path, err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	name, from, files := lines[0], lines[1], lines[2:]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	replace := map[string]string{filepath.Join(from, "zz_recorder.go"): filepath.Join(dir, "zz_recorder.go")}
	if err := os.WriteFile(filepath.Join(dir, "zz_recorder.go"), []byte(strings.Replace(recorderSource, "PACKAGE", name, 1)), 0o644); err != nil {
		return "", err
	}
	for _, file := range files {
		source, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			return "", err
		}
		changed, err := instrument(file, source)
		if err != nil {
			return "", err
		}
		if changed == nil {
			continue
		}
		replace[filepath.Join(from, file)] = filepath.Join(dir, file)
		if err := os.WriteFile(filepath.Join(dir, file), changed, 0o644); err != nil {
			return "", err
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, data, 0o644)
}

// instrument puts calls of the recorder at the beginnings of the functions that
// make a plugin or ask it; nil where there are none.
func instrument(name string, source []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	type insertion struct {
		at   int
		text string
	}
	var all []insertion
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		var params []string
		for _, field := range f.Type.Params.List {
			for _, n := range field.Names {
				params = append(params, strings.Replace(n.Name, "_", "nil", 1))
			}
		}
		at := set.Position(f.Body.Lbrace).Offset + 1
		if f.Recv == nil {
			if strings.HasPrefix(f.Name.Name, "New") && len(params) >= 3 && params[1] != "nil" && returnsPlugin(f) {
				all = append(all, insertion{at, " recordArgs(" + params[1] + ");"})
			}
			continue
		}
		if len(f.Recv.List[0].Names) == 0 || len(params) < 4 {
			continue
		}
		receiver := f.Recv.List[0].Names[0].Name
		switch f.Name.Name {
		case "PreFilter", "PreScore":
			all = append(all, insertion{at, fmt.Sprintf(" recordCall(%s, %s, %s, nil, nil);", receiver, params[2], params[3])})
		case "SelectVictimsOnNode": // of the dry run: (ctx, state, pod, node, budgets)
			all = append(all, insertion{at, fmt.Sprintf(" recordCall(%s, %s, nil, %s, %s);", receiver, params[2], params[3], params[4])})
		case "Filter", "Score":
			all = append(all, insertion{at, fmt.Sprintf(" recordCall(%s, %s, nil, %s, nil);", receiver, params[2], params[3])})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	last := 0
	for _, i := range all {
		b.Write(source[last:i.at])
		b.WriteString(i.text)
		last = i.at
	}
	b.Write(source[last:])
	return b.Bytes(), nil
}

// returnsPlugin reports whether a function makes a plugin out of arguments and a
// handle.
func returnsPlugin(f *ast.FuncDecl) bool {
	for _, p := range f.Type.Params.List {
		if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Handle" {
			return f.Type.Results != nil && len(f.Type.Results.List) == 2
		}
	}
	return false
}

// readRecords makes clusters of what was recorded; pods that were asked about on
// the same picture come together.
func readRecords(path string) ([]*cluster, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: nothing was recorded", filepath.Base(path))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	pictures, order := map[string]*cluster{}, []string{}
	family := ""
	for {
		r := &record{}
		if err := d.Decode(r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		family = strings.TrimSuffix(filepath.Base(path), ".jsonl")
		c, err := r.cluster()
		if err != nil {
			return nil, err
		}
		ask := c.Ask
		c.Ask = nil
		key, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		have := pictures[string(key)]
		if have == nil {
			have = c
			pictures[string(key)] = c
			order = append(order, string(key))
		}
		have.Ask = append(have.Ask, ask...)
	}
	// Tests that run at once are recorded in any order.
	slices.Sort(order)
	var out []*cluster
	for i, key := range order {
		c := pictures[key]
		c.ID, c.Family = fmt.Sprintf("Table-%s/%d", family, i), "Table-"+family
		c.Ask = unlike(c)
		out = append(out, c)
	}
	return out, nil
}

// unlike are the pods that were asked about, each once and with a name of its own.
func unlike(c *cluster) []*v1.Pod {
	var out []*v1.Pod
	known, taken := map[string]bool{}, map[string]bool{}
	for _, p := range c.Pods {
		taken[p.Namespace+"/"+p.Name], taken[string(p.UID)] = true, true
	}
	key := func(p *v1.Pod) string {
		data, _ := json.Marshal(p)
		return string(data)
	}
	slices.SortFunc(c.Ask, func(a, b *v1.Pod) int { return cmp.Compare(key(a), key(b)) })
	for _, p := range c.Ask {
		if known[key(p)] {
			continue
		}
		known[key(p)] = true
		q := p.DeepCopy()
		if q.Name == "" || taken[q.Namespace+"/"+q.Name] {
			q.Name = fmt.Sprintf("asked-%d", len(out))
		}
		if q.UID == "" || taken[string(q.UID)] {
			q.UID = types.UID(fmt.Sprintf("uid-asked-%d", len(out)))
		}
		taken[q.Namespace+"/"+q.Name], taken[string(q.UID)] = true, true
		out = append(out, q)
	}
	return out
}

// cluster makes a record whole: names, UIDs and what else no object in a cluster
// lacks. Tables leave it out.
func (r *record) cluster() (*cluster, error) {
	c := &cluster{Nodes: r.Nodes, Pods: r.Pods, Ask: []*v1.Pod{r.Pod}}
	if r.Plugin == "VolumeBinding" {
		r.Args = nil // only a time-out, and what a feature gate that is off allows
	}
	if len(r.Args) > 0 {
		c.Config = []pluginConfig{{r.Plugin, r.Args}}
	}
	renamed := map[string]string{}
	taken := map[string]bool{}
	for i, n := range c.Nodes {
		old := n.Name
		if n.Name == "" || taken[n.Name] {
			n.Name = fmt.Sprintf("node-%d", i)
		}
		taken[n.Name] = true
		if _, ok := renamed[old]; !ok {
			renamed[old] = n.Name
		}
		n.UID = types.UID("uid-" + n.Name)
		for _, list := range []*v1.ResourceList{&n.Status.Capacity, &n.Status.Allocatable} {
			if _, ok := (*list)[v1.ResourcePods]; !ok {
				if *list == nil {
					*list = v1.ResourceList{}
				}
				(*list)[v1.ResourcePods] = resource.MustParse("110")
			}
		}
	}
	slices.SortFunc(c.Nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	taken = map[string]bool{}
	for _, p := range c.Pods {
		complete(p)
		p.Spec.NodeName = renamed[p.Spec.NodeName]
		p.UID = ""
	}
	slices.SortStableFunc(c.Pods, func(a, b *v1.Pod) int {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return bytes.Compare(x, y)
	})
	for i, p := range c.Pods {
		if key := p.Namespace + "/" + p.Name; p.Name == "" || taken[key] {
			p.Name = fmt.Sprintf("there-%d", i)
		}
		taken[p.Namespace+"/"+p.Name] = true
		p.UID = types.UID(fmt.Sprintf("uid-there-%d", i))
		p.Status.Phase = v1.PodRunning
	}
	complete(r.Pod)
	r.Pod.Spec.NodeName, r.Pod.Status = "", v1.PodStatus{Phase: v1.PodPending}
	slices.SortFunc(r.Objects, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
	for i, raw := range r.Objects {
		o, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), raw)
		if err != nil {
			return nil, err
		}
		if version := o.GetObjectKind().GroupVersionKind().Version; version != "v1" {
			continue // of feature gates that are off
		}
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim:
			if o.Namespace == "" {
				o.Namespace = v1.NamespaceDefault
			}
			if o.Spec.VolumeName != "" {
				metav1.SetMetaDataAnnotation(&o.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
			}
		case *storagev1.StorageClass:
			if o.VolumeBindingMode == nil {
				now := storagev1.VolumeBindingImmediate
				o.VolumeBindingMode = &now
			}
		}
		if m, ok := o.(interface {
			GetUID() types.UID
			SetUID(types.UID)
		}); ok && m.GetUID() == "" {
			m.SetUID(types.UID(fmt.Sprintf("uid-object-%d", i)))
		}
		c.Objects = append(c.Objects, o)
	}
	return c, nil
}

// complete defaults what the API would, as far as plugins go by it.
func complete(p *v1.Pod) {
	if p.Namespace == "" {
		p.Namespace = v1.NamespaceDefault
	}
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	if p.DeletionTimestamp != nil { // often the time of the test
		p.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)}
	}
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == "" {
				list[i].Name = fmt.Sprintf("c%d", i)
			}
			for name, q := range list[i].Resources.Limits {
				if _, ok := list[i].Resources.Requests[name]; !ok {
					if list[i].Resources.Requests == nil {
						list[i].Resources.Requests = v1.ResourceList{}
					}
					list[i].Resources.Requests[name] = q
				}
			}
			for k := range list[i].Ports {
				if list[i].Ports[k].Protocol == "" {
					list[i].Ports[k].Protocol = v1.ProtocolTCP
				}
			}
		}
	}
}
