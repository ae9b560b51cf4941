package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// documentPatience is how long all commands of one document may take together,
// on a machine that has to build a plugin for the first time.
const documentPatience = 30 * time.Minute

// fence is one fenced block of a document. Its info string is a language and,
// behind it, either a file's name ("go quiet/main.go": the reader writes this
// file), "cluster" (the commands need a cluster that runs containers) or "store"
// (they need one that stores).
type fence struct {
	line           int
	language, note string
	text           string
}

// fences reads the fenced blocks of a document of the repository.
func fences(t testing.TB, document string) []fence {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", document))
	if err != nil {
		t.Fatal(err)
	}
	var all []fence
	var open *fence
	for i, line := range strings.Split(string(data), "\n") {
		switch info, isFence := strings.CutPrefix(line, "```"); {
		case isFence && open == nil:
			language, note, _ := strings.Cut(info, " ")
			open = &fence{line: i + 1, language: language, note: note}
		case isFence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block is not closed", document, open.line)
	}
	return all
}

// script joins the commands of a document, each block under a line that says
// where it stands, so that a later block finds what an earlier one made.
func script(document string, blocks []fence, note string) string {
	var b strings.Builder
	for _, f := range blocks {
		if f.language == "sh" && f.note == note {
			fmt.Fprintf(&b, "echo '== %s:%d' >&2\n%s", document, f.line, f.text)
		}
	}
	return b.String()
}

// shell runs commands in dir, in the network of e where there is one.
func shell(t *testing.T, e *env, dir, commands string, environment ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), documentPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu")
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	cmd.Stdin = strings.NewReader(commands)
	cmd.Env = append(os.Environ(), environment...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	var network *cluster.Network
	if e != nil {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+e.Kubeconfig)
		network = e.Network
	}
	err := network.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// guide is the operator's guide, in the order in which its commands run.
var guide = []string{
	"configs/README.md", "configs/docs/access.md", "configs/docs/nodes.md", "configs/docs/plugins.md",
	"configs/docs/operations.md", "configs/docs/reference.md",
}

// guideScript joins the commands of the guide with a note, as script does those of one
// document.
func guideScript(t testing.TB, note string) string {
	t.Helper()
	var b strings.Builder
	for _, document := range guide {
		b.WriteString(script(document, fences(t, document), note))
	}
	if b.Len() == 0 {
		t.Fatalf("the operator's guide has no commands with the note %q", note)
	}
	return b.String()
}

// maxQuickStart is how many bytes the first page of the operator's guide may have.
const maxQuickStart = 5 << 10

// TestDocumentsGuide holds the guide's list of pages, and keeps its first page short.
func TestDocumentsGuide(t *testing.T) {
	pages, err := filepath.Glob("../configs/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("the pages of the guide: %q, %v", pages, err)
	}
	first, err := os.ReadFile("../configs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(first) > maxQuickStart {
		t.Errorf("configs/README.md has %d bytes; a quick start has at most %d", len(first), maxQuickStart)
	}
	for _, page := range pages {
		page = strings.TrimPrefix(page, "../")
		if !slices.Contains(guide, page) {
			t.Errorf("%s is no page of the guide: its commands are run by no test", page)
		}
		if !strings.Contains(string(first), "]("+strings.TrimPrefix(page, "configs/")+")") {
			t.Errorf("configs/README.md has no link to %s", page)
		}
	}
}

// TestDocumentsNameDependencies holds the README's table of modules against go.mod.
func TestDocumentsNameDependencies(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	direct := strings.Fields(string(out))
	if len(direct) == 0 {
		t.Fatal("no direct dependency found")
	}
	for _, module := range direct {
		if !strings.Contains(string(readme), "`"+module+"`") {
			t.Errorf("README.md gives no reason for %s", module)
		}
	}
}

// link is a link into the tree: a file, a heading of it, or a heading of the same file.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]+))?\)`)

// heading is a heading of a document outside of its fenced blocks.
var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are the names by which links reach a document's headings.
func anchors(text string) map[string]bool {
	var open bool
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		if strings.HasPrefix(line, "```") {
			open = !open
		}
		return open
	})
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(strings.Join(lines, "\n"), -1) {
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return names
}

// TestDocumentsLinks follows the links of every document into the tree, to files and to
// their headings.
func TestDocumentsLinks(t *testing.T) {
	documents := []string{"README.md"}
	for _, pattern := range []string{".github/*.md", "kernel/*.md", "kernel/rationale/*.md", "e2e/bench/results/*.md", "sdk/*.md", "configs/*.md", "configs/docs/*.md", "e2e/*.md", "plugins/*/*.md", "plugins/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			documents = append(documents, strings.TrimPrefix(f, "../"))
		}
	}
	for _, d := range documents {
		text, err := os.ReadFile(filepath.Join("..", d))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join("..", filepath.Dir(d), m[1])
			if m[1] == "" {
				target = filepath.Join("..", d)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", d, m[1], err)
			}
			if m[2] == "" || filepath.Ext(target) != ".md" {
				continue
			}
			if text, err := os.ReadFile(target); err == nil && !anchors(string(text))[m[2]] {
				t.Errorf("%s: link to %s#%s: there is no such heading", d, m[1], m[2])
			}
		}
	}
}

// TestDocumentsTour runs the README's commands, in order, on a cluster.
func TestDocumentsTour(t *testing.T) {
	t.Parallel()
	needContainers(t)
	if _, err := exec.LookPath("curl"); err != nil {
		skip(t, "the README's commands need curl")
	}
	commands := script("README.md", fences(t, "README.md"), "cluster")
	if commands == "" {
		t.Fatal("README.md has no commands")
	}
	e := private(t, cluster.Options{Name: "documents", Config: "configs/standalone.yaml"})
	out := shell(t, e, e.Path(), commands)
	contains(t, out,
		"deployment.apps/frontend created",
		`deployment "frontend" successfully rolled out`,
		"<li>hello</li>",
		"store-", "frontend-",
		"Successfully assigned",
		"NodeResourcesFit",
		`namespace "guestbook" deleted`,
	)
}

// TestDocumentsOperator runs the operator's guide: what needs no cluster where
// there is none, the rest on one without a node.
func TestDocumentsOperator(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	out := shell(t, nil, repo, guideScript(t, ""))
	contains(t, out, "configs/standalone.yaml: ok", "# (live; PINTLE_LOGGING_LEVEL; debug | info | warn | error)", "port: 7443")

	// A bundle of which the guide speaks as of one that somebody installed.
	bundles := t.TempDir()
	mynet := filepath.Join(bundles, "mynet")
	if err := os.Mkdir(mynet, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(mynet, "manifest.yaml"), hostileManifest("mynet", "mynet", "proxy")+"privileged: true\n")
	copyFile(t, binary(t, "pintle"), filepath.Join(mynet, "mynet"))
	pintle(t, 0, "plugin", "seal", mynet)
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")

	for _, f := range guideFragments(t) {
		// Fragments of a configuration: each lies in a whole one.
		whole := filepath.Join(t.TempDir(), "whole.yaml")
		text := "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\n" + f.text
		if err := os.WriteFile(whole, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(binary(t, "pintle"), "config", "check", whole, "--set", "plugins.directories=["+own+","+bundles+"]").CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", f.document, f.line, err, out)
		}
	}
}

// fragment is a part of a configuration in a document.
type fragment struct {
	fence
	document string
}

// guideFragments lists the guide's parts of configurations: blocks of YAML without a note,
// which would say that they are a file of another kind.
func guideFragments(t testing.TB) []fragment {
	t.Helper()
	var all []fragment
	for _, document := range guide {
		for _, f := range fences(t, document) {
			if f.language == "yaml" && f.note == "" {
				all = append(all, fragment{f, document})
			}
		}
	}
	if len(all) < 10 {
		t.Fatalf("the operator's guide has %d parts of configurations; there are more", len(all))
	}
	return all
}

// TestDocumentsStore runs the commands of the operator's guide that work on a
// store, in a folder of their own beside the data directory of a cluster, and
// starts a kernel on what they restored.
func TestDocumentsStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := minimal(t, "", filepath.Join(dir, ".data"))
	path := "PATH=" + filepath.Dir(binary(t, "pintle")) + ":" + os.Getenv("PATH")
	out := shell(t, nil, dir, guideScript(t, "store"), path)
	contains(t, out, "kind: Namespace")
	if err := e.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	restored := minimal(t, "", filepath.Join(dir, "restored"))
	if _, err := restored.client.CoreV1().Namespaces().Get(bound(t), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestDocumentsInstall runs the operator's commands for installing plugins, on
// packages that an author made, beside a kernel that runs.
func TestDocumentsInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() })
	pintle(t, 0, "plugin", "keygen", "--prefix", filepath.Join(dir, "cosign"))
	for file, version := range map[string]string{"quiet.tar.gz": "1.0.0", "quiet-2.tar.gz": "2.0.0"} {
		bundle := versioned(t, version, "wasm")
		replace(t, filepath.Join(bundle, "manifest.yaml"), "name: versioned", "name: quiet")
		pintle(t, 0, "plugin", "package", bundle, "-f", filepath.Join(dir, file), "--sign-key", filepath.Join(dir, "cosign.key"))
	}
	e := minimal(t, catalogConfig(t, ""), filepath.Join(dir, ".data"))
	path := "PATH=" + filepath.Dir(binary(t, "pintle")) + ":" + os.Getenv("PATH")
	out := shell(t, nil, dir, guideScript(t, "install"), path)
	contains(t, out, "installed over 1.0.0", "removed")
	e.stop(t)
}

// TestDocumentsExplain runs the operator's commands about decisions on a cluster
// of hollow nodes. The candidate is the bundle in use under another version.
func TestDocumentsExplain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundles := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	next := filepath.Join(dir, "next", "classic")
	if err := os.CopyFS(next, os.DirFS(filepath.Join(bundles, "classic"))); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(next, "manifest.yaml")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), "version: 0.1.0", "version: 0.1.1", 1)
	if err := os.WriteFile(manifest, []byte(other), 0o644); err != nil || other == string(text) {
		t.Fatalf("manifest %v: %s", err, text)
	}
	config := filepath.Join(dir, "config.yaml")
	plain := strings.NewReplacer("name: picky", "name: hollow\n    privileged: true", "  - name: hollow\n    privileged: true\n", "", "[Picky, ", "[CheckNodeUnschedulable, ", "DIR, BIN", bundles, "nodes: 3", "nodes: 2").Replace(explainConfig)
	if err := os.WriteFile(config, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, ".data")
	e := minimal(t, config, data)
	e.apply(t, "default", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n")
	eventually(t, func(ctx context.Context) error {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && len(nodes.Items) != 2 {
			err = fmt.Errorf("%d nodes", len(nodes.Items))
		}
		return err
	})
	// The build that is in force is no candidate.
	contains(t, pintle(t, 1, "plugin", "shadow", "PodFitsResources", "--path", filepath.Join(bundles, "classic"), "--data", data), "holds the build that is in force, version 0.1.0")
	out := shell(t, nil, dir, guideScript(t, "explain"),
		"PATH="+filepath.Dir(binary(t, "pintle"))+":"+os.Getenv("PATH"), "KUBECONFIG="+e.Kubeconfig, "PINTLE_DATADIR="+data, "NEXT="+next)
	contains(t, out, "WHAT WOULD HAVE TO CHANGE", "least lacking:", "BASIS     decision", "1 of 2 pods would be placed", "otherwise than by the present policy",
		"CANDIDATE   0.1.1", "has no candidate any more")
	e.stop(t)
}

// TestDocumentsAuthor does what the author's guide says, from nothing to signed
// plugins in a running cluster, and sees the predicate refuse a node and the
// controller greet. Blocks "go made FILE" are compared with what the commands made.
func TestDocumentsAuthor(t *testing.T) {
	t.Parallel()
	blocks := fences(t, "sdk/README.md")
	path := "PATH=" + filepath.Dir(binary(t, "pintle")) + ":" + os.Getenv("PATH")
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range blocks {
		if f.note == "" || f.language == "sh" || strings.HasPrefix(f.note, "made ") {
			continue
		}
		file := filepath.Join(dir, f.note)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(shell(t, nil, dir, script("sdk/README.md", blocks, ""), path, "PINTLE="+repo))
	for _, f := range blocks {
		if file, made := strings.CutPrefix(f.note, "made "); made {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || string(data) != f.text {
				t.Errorf("sdk/README.md:%d is not %s (%v):\n%s", f.line, file, err, data)
			}
		}
	}
	e := launched(t, cluster.Options{
		Name: "author", Config: filepath.Join(dir, "cluster.yaml"), Data: filepath.Join(dir, ".data"),
		Set: []string{"plugins.directories=[" + filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins") + "]"},
	})
	t.Log(shell(t, e, dir, script("sdk/README.md", blocks, "kernel"), path))
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().ConfigMaps("default").Get(ctx, "greeting", metav1.GetOptions{})
		return err
	})
	e.apply(t, "default", tiersObjects)
	e.awaitTiers(t)
}
