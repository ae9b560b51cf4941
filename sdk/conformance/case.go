package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// maxCaseBytes bounds a file of cases.
const maxCaseBytes = 4 << 20

// Case is a cluster, a pod that is asked about, and the answers that are right;
// or a request to the API that is to be admitted, and what admission plugins say.
// Nodes, pods and objects are those of contract/v1/scheduling.proto in their
// JSON form; a node that does not say what it offers has 4 CPUs, 8 GiB and 110 pods.
type Case struct {
	Name    string
	Nodes   []*contractv1.Node
	Pods    []Placed
	Objects []*contractv1.Object
	Pod     *contractv1.Pod
	// Config is given to each plugin by name before it is asked.
	Config map[string]json.RawMessage
	// Want is plugin → node → answer.
	Want map[string]map[string]Answer

	// Request is an AdmissionRequest of admission.k8s.io/v1 as JSON; nil: the case
	// is about a pod and nodes.
	Request json.RawMessage
	// WantReviews is plugin → answer.
	WantReviews map[string]Review
}

// Placed is a pod on a node.
type Placed struct {
	Node string
	Pod  *contractv1.Pod
}

// Answer of one plugin about one node: reasons of a predicate, none where the
// pod fits, or the score of a priority, normalized where it normalizes itself.
type Answer struct {
	Reasons []string
	Score   int64
	scored  bool
}

// rawCase is a case as its file has it.
type rawCase struct {
	Name    string           `yaml:"name"`
	Nodes   []map[string]any `yaml:"nodes,omitempty"`
	Pods    []rawPlaced      `yaml:"pods,omitempty"`
	Objects []map[string]any `yaml:"objects,omitempty"`
	Pod     map[string]any   `yaml:"pod,omitempty"`
	Request map[string]any   `yaml:"request,omitempty"`
	Config  map[string]any   `yaml:"config,omitempty"`
	Want    map[string]any   `yaml:"want,omitempty"`
}

type rawPlaced struct {
	Node string         `yaml:"node"`
	Pod  map[string]any `yaml:"pod"`
}

// ReadCases reads every case of the .yaml files in a folder, in order of their
// names; a file holds one case or several, one document each. A folder that is
// not there, and no folder, has none.
func ReadCases(dir string) ([]Case, error) {
	if dir == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []Case
	for _, f := range files {
		cases, err := readFile(f)
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

func readFile(path string) ([]Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) > maxCaseBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxCaseBytes)
	}
	var cases []Case
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	for k := 0; ; k++ {
		var raw rawCase
		if err := d.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return cases, nil
			}
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		c, err := raw.parse()
		if err != nil {
			return nil, fmt.Errorf("%s: case %d: %w", path, k+1, err)
		}
		if c.Name == "" {
			c.Name = strings.TrimSuffix(filepath.Base(path), ".yaml")
			if k > 0 {
				c.Name += fmt.Sprintf("#%d", k+1)
			}
		}
		cases = append(cases, c)
	}
}

// into decodes a YAML value as the message's JSON form.
func into(value map[string]any, m proto.Message) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(data, m)
}

func (r rawCase) parse() (Case, error) {
	c := Case{Name: r.Name, Pod: &contractv1.Pod{}, Config: map[string]json.RawMessage{}, Want: map[string]map[string]Answer{}}
	for plugin, config := range r.Config {
		data, err := json.Marshal(config)
		if err != nil {
			return c, fmt.Errorf("config of %s: %w", plugin, err)
		}
		c.Config[plugin] = data
	}
	if r.Request != nil {
		return c, r.parseReview(&c)
	}
	names := map[string]bool{}
	for k, raw := range r.Nodes {
		n := &contractv1.Node{}
		if err := into(raw, n); err != nil {
			return c, fmt.Errorf("nodes[%d]: %w", k, err)
		}
		if n.Name == "" || names[n.Name] {
			return c, fmt.Errorf("nodes[%d]: name %q is empty or there twice", k, n.Name)
		}
		names[n.Name] = true
		c.Nodes = append(c.Nodes, whole(n))
	}
	for k, raw := range r.Pods {
		p := Placed{Node: raw.Node, Pod: &contractv1.Pod{}}
		if !names[p.Node] {
			return c, fmt.Errorf("pods[%d]: there is no node %q", k, p.Node)
		}
		if err := into(raw.Pod, p.Pod); err != nil {
			return c, fmt.Errorf("pods[%d]: %w", k, err)
		}
		if p.Pod.Uid == "" {
			p.Pod.Uid = fmt.Sprintf("pod-%d", k+1)
		}
		c.Pods = append(c.Pods, p)
	}
	for k, raw := range r.Objects {
		o := &contractv1.Object{}
		if err := into(raw, o); err != nil {
			return c, fmt.Errorf("objects[%d]: %w", k, err)
		}
		c.Objects = append(c.Objects, o)
	}
	if err := into(r.Pod, c.Pod); err != nil {
		return c, fmt.Errorf("pod: %w", err)
	}
	for plugin, want := range r.Want {
		nodes, ok := want.(map[string]any)
		if !ok && want != nil {
			return c, fmt.Errorf("want of %s: %v, want an answer a node", plugin, want)
		}
		c.Want[plugin] = map[string]Answer{}
		for node, value := range nodes {
			if !names[node] {
				return c, fmt.Errorf("want of %s: there is no node %q", plugin, node)
			}
			a, err := parseAnswer(value)
			if err != nil {
				return c, fmt.Errorf("want of %s for %s: %w", plugin, node, err)
			}
			c.Want[plugin][node] = a
		}
	}
	return c, nil
}

func parseAnswer(value any) (Answer, error) {
	switch v := value.(type) {
	case nil:
		return Answer{}, nil
	case int:
		return Answer{Score: int64(v), scored: true}, nil
	case string:
		if v == "fits" {
			return Answer{}, nil
		}
		return Answer{Reasons: []string{v}}, nil
	case []any:
		var a Answer
		for _, reason := range v {
			text, ok := reason.(string)
			if !ok {
				return a, fmt.Errorf("%v is no reason", reason)
			}
			a.Reasons = append(a.Reasons, text)
		}
		return a, nil
	}
	return Answer{}, fmt.Errorf("%v; want fits, a reason, a list of reasons, or a score", value)
}

// whole fills in what a node of a case may leave out.
func whole(n *contractv1.Node) *contractv1.Node {
	if n.Uid == "" {
		n.Uid = "node-" + n.Name
	}
	if n.Allocatable == nil {
		n.Allocatable = &contractv1.Resources{MilliCpu: 4000, Memory: 8 << 30, Pods: 110}
	}
	if n.Allocatable.Pods == 0 {
		n.Allocatable.Pods = 110
	}
	if n.Capacity == nil {
		n.Capacity = proto.Clone(n.Allocatable).(*contractv1.Resources)
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	if n.Labels["kubernetes.io/hostname"] == "" {
		n.Labels["kubernetes.io/hostname"] = n.Name
	}
	return n
}

// Delta is the case's cluster, with its pod as Class.
func (c Case) Delta() *contractv1.Delta {
	d := &contractv1.Delta{Generation: 1, Reset_: true}
	at := map[string]uint32{}
	for i, n := range c.Nodes {
		at[n.Name] = uint32(i)
		d.Operations = append(d.Operations, nodeSet(uint32(i), n))
	}
	for _, p := range c.Pods {
		d.Operations = append(d.Operations, podAdd(at[p.Node], p.Pod))
	}
	for _, o := range c.Objects {
		d.Operations = append(d.Operations, objectSet(o))
	}
	d.Operations = append(d.Operations, classSet(c.Pod))
	return proto.Clone(d).(*contractv1.Delta)
}

// Ask asks every plugin of a about the case: plugin → node → answer.
func (c Case) Ask(ctx context.Context, a artifact.Artifact) (map[string]map[string]Answer, error) {
	if err := c.configure(ctx, a); err != nil {
		return nil, err
	}
	if err := a.Apply(ctx, c.Delta()); err != nil {
		return nil, err
	}
	nodes := make([]uint32, len(c.Nodes))
	for i := range nodes {
		nodes[i] = uint32(i)
	}
	said, err := ask(ctx, a, a.Plugins(), nodes, true)
	if err != nil {
		return nil, err
	}
	got := map[string]map[string]Answer{}
	for k, p := range a.Plugins() {
		if !answers(p.GetKind()) {
			continue
		}
		got[p.GetName()] = map[string]Answer{}
		for i, n := range c.Nodes {
			v := Answer{Reasons: said[k].reasons[uint32(i)], Score: said[k].scores[uint32(i)], scored: p.GetKind() == sdk.KindPriority}
			if said[k].normalized != nil {
				v.Score = said[k].normalized[uint32(i)]
			}
			got[p.GetName()][n.Name] = v
		}
	}
	return got, nil
}

// configure hands out the case's configurations.
func (c Case) configure(ctx context.Context, a artifact.Artifact) error {
	for i, p := range a.Plugins() {
		if config, ok := c.Config[p.GetName()]; ok {
			if err := a.Configure(ctx, i, config); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run asks a about the case, on an instance of its own where the case has a
// configuration, and returns what differs from Want, a line each.
func (c Case) Run(ctx context.Context, open Open) error {
	a, err := open(ctx)
	if err != nil {
		return err
	}
	if c.Request != nil {
		got, err := c.Review(ctx, a)
		if err = errors.Join(err, a.Close(ctx)); err != nil {
			return err
		}
		return c.compareReviews(got)
	}
	got, err := c.Ask(ctx, a)
	err = errors.Join(err, a.Close(ctx))
	if err != nil {
		return err
	}
	var faults []error
	for _, plugin := range slices.Sorted(maps.Keys(c.Want)) {
		if got[plugin] == nil {
			faults = append(faults, fmt.Errorf("%s: it is not in this build, or is not asked about nodes", plugin))
			continue
		}
		for _, n := range c.Nodes {
			want, ok := c.Want[plugin][n.Name]
			if has := got[plugin][n.Name]; ok && !want.equal(has) {
				faults = append(faults, fmt.Errorf("%s for node %s: got %s, want %s", plugin, n.Name, has, want))
			}
		}
	}
	return errors.Join(faults...)
}

func (a Answer) equal(b Answer) bool {
	return a.scored == b.scored && a.Score == b.Score && slices.Equal(a.Reasons, b.Reasons)
}

// String is the answer as a case's file has it.
func (a Answer) String() string {
	switch {
	case a.scored:
		return fmt.Sprint(a.Score)
	case len(a.Reasons) == 0:
		return "fits"
	}
	return fmt.Sprintf("%q", strings.Join(a.Reasons, "; "))
}

func (a Answer) node() *yaml.Node {
	n := &yaml.Node{}
	var v any = a.Reasons
	switch {
	case a.scored:
		v = a.Score
	case len(a.Reasons) == 0:
		v = "fits"
	case len(a.Reasons) == 1:
		v = a.Reasons[0]
	}
	if err := n.Encode(v); err != nil { // of strings and numbers it cannot fail
		panic(err)
	}
	return n
}

// Update writes the answers of a build into the want sections of the cases of a
// folder; everything else of the files stays. It returns the files that changed.
func Update(ctx context.Context, dir string, open Open) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, path := range files {
		cases, err := readFile(path)
		if err != nil {
			return changed, err
		}
		before, err := os.ReadFile(path)
		if err != nil {
			return changed, err
		}
		after, err := update(ctx, before, cases, open)
		if err != nil {
			return changed, fmt.Errorf("%s: %w", path, err)
		}
		if bytes.Equal(before, after) {
			continue
		}
		if err := os.WriteFile(path, after, 0o644); err != nil {
			return changed, err
		}
		changed = append(changed, path)
	}
	return changed, nil
}

func update(ctx context.Context, data []byte, cases []Case, open Open) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	d := yaml.NewDecoder(bytes.NewReader(data))
	for _, c := range cases {
		var document yaml.Node
		if err := d.Decode(&document); err != nil {
			return nil, err
		}
		a, err := open(ctx)
		if err != nil {
			return nil, err
		}
		want, err := c.answered(ctx, a)
		if err = errors.Join(err, a.Close(ctx)); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
		top := document.Content[0]
		placed := false
		for i := 0; i+1 < len(top.Content); i += 2 {
			if top.Content[i].Value == "want" {
				top.Content[i+1], placed = want, true
			}
		}
		if !placed {
			top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "want"}, want)
		}
		if err := e.Encode(&document); err != nil {
			return nil, err
		}
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// answered is a build's answers as the want section of a case.
func (c Case) answered(ctx context.Context, a artifact.Artifact) (*yaml.Node, error) {
	want := &yaml.Node{Kind: yaml.MappingNode}
	add := func(to *yaml.Node, name string, value *yaml.Node) {
		to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
	}
	if c.Request != nil {
		got, err := c.Review(ctx, a)
		for _, plugin := range slices.Sorted(maps.Keys(got)) {
			add(want, plugin, got[plugin].node())
		}
		return want, err
	}
	got, err := c.Ask(ctx, a)
	for _, plugin := range slices.Sorted(maps.Keys(got)) {
		nodes := &yaml.Node{Kind: yaml.MappingNode}
		for _, n := range c.Nodes {
			add(nodes, n.Name, got[plugin][n.Name].node())
		}
		add(want, plugin, nodes)
	}
	return want, err
}

// WordsOf are the labels, annotations and taints that the cases name, so that
// random clusters have them too.
func WordsOf(cases []Case) Vocabulary {
	v := Vocabulary{}
	take := func(to *map[string][]string, from map[string]string) {
		for key, value := range from {
			if key == "kubernetes.io/hostname" {
				continue
			}
			if *to == nil {
				*to = map[string][]string{}
			}
			if !slices.Contains((*to)[key], value) {
				(*to)[key] = append((*to)[key], value)
				slices.Sort((*to)[key])
			}
		}
	}
	pod := func(p *contractv1.Pod) {
		take(&v.Labels, p.GetLabels())
		take(&v.Labels, p.GetNodeSelector())
		take(&v.Annotations, p.GetAnnotations())
	}
	for _, c := range cases {
		for _, n := range c.Nodes {
			take(&v.Labels, n.GetLabels())
			take(&v.Annotations, n.GetAnnotations())
			v.Taints = append(v.Taints, n.GetTaints()...)
		}
		for _, p := range c.Pods {
			pod(p.Pod)
		}
		for _, o := range c.Objects {
			v.Reads = append(v.Reads, o.GetKey().GetKind())
		}
		pod(c.Pod)
	}
	slices.Sort(v.Reads)
	v.Reads = slices.Compact(v.Reads)
	return v
}
