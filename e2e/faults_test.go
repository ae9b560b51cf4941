package e2e

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// attempt is a `pintle serve` that a test ends, or that ends by itself.
type attempt struct {
	cmd    *exec.Cmd
	data   string
	screen chan string // lines of standard output; closed at its end
	stderr bytes.Buffer
	exited chan struct{}
	err    error // valid after exited
}

// faulty is how a start goes wrong.
type faulty struct {
	// program is bin/pintle when empty.
	program string
	config  string // a file; configs/minimal.yaml when empty
	data    string
	args    []string
	env     []string
	// network to run in; nil is the machine's own.
	network *cluster.Network
	// credential runs the kernel as another user; nil is the test's own.
	credential *syscall.Credential
}

// serve starts the kernel in a session of its own, by which what it leaves
// behind is found.
func serve(t *testing.T, f faulty) *attempt {
	t.Helper()
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	if f.config == "" {
		f.config = filepath.Join(repo, "configs", "minimal.yaml")
	}
	args := append([]string{"serve", "--config", f.config, "--data", f.data, "--set", "api.port=0"}, f.args...)
	if f.program == "" {
		f.program = binary(t, "pintle")
	}
	a := &attempt{cmd: exec.Command(f.program, args...), data: f.data, screen: make(chan string, 100), exited: make(chan struct{})}
	a.cmd.Dir = "/"
	a.cmd.Env = append(os.Environ(), f.env...)
	a.cmd.Stderr = &a.stderr
	a.cmd.WaitDelay = 5 * time.Second
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: f.credential}
	out, in := io.Pipe()
	a.cmd.Stdout = in
	if err := f.network.Start(a.cmd); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(a.screen)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			a.screen <- scan.Text()
		}
	})
	go func() {
		a.err = a.cmd.Wait()
		in.Close()
		reading.Wait()
		close(a.exited)
	}()
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		<-a.exited
	})
	return a
}

// until waits for a line of the screen with a prefix.
func (a *attempt) until(t *testing.T, prefix string) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-a.screen:
			if !ok {
				<-a.exited
				t.Fatalf("no line %q before the end: %v\n%s", prefix, a.err, a.stderr.String())
			}
			if strings.HasPrefix(line, prefix) {
				return
			}
		case <-limit:
			t.Fatalf("no line %q within %s", prefix, patience)
		}
	}
}

// wait waits for the end and returns the exit code, -1 after a signal.
func (a *attempt) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-a.exited:
	case <-time.After(patience):
		_ = a.cmd.Process.Signal(syscall.SIGQUIT)
		<-a.exited
		t.Fatalf("the kernel did not end within %s\n%s", patience, a.stderr.String())
	}
	for _, left := range cluster.Processes(a.cmd.Process.Pid, a.data) {
		t.Errorf("left behind: %s", left)
	}
	return a.cmd.ProcessState.ExitCode()
}

// fault runs a start that has to fail and returns its one line.
func fault(t *testing.T, f faulty, code int) string {
	t.Helper()
	a := serve(t, f)
	if got := a.wait(t); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	lines := a.complaints()
	if len(lines) != 1 {
		t.Errorf("want one line on standard error, got %d:\n%s\nof all of it:\n%s", len(lines), strings.Join(lines, "\n"), a.stderr.String())
	}
	return strings.Join(lines, "\n")
}

// complaints are the lines on standard error, but for the log's records of
// what goes well, and of a right that this machine does not give to anybody.
func (a *attempt) complaints() []string {
	var list []string
	for line := range strings.Lines(a.stderr.String()) {
		if strings.Contains(line, " level=WARN ") && strings.Contains(line, "give it CAP_SYS_RESOURCE") {
			continue
		}
		if !strings.HasPrefix(line, "time=") || !strings.Contains(line, " level=INFO ") {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

// minimal starts configs/minimal.yaml, or another file without a node, on a
// data directory.
func minimal(t *testing.T, config, data string, set ...string) *env {
	t.Helper()
	binary(t, "pintle")
	if config == "" {
		config = "configs/minimal.yaml"
	}
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))
	e, err := launch(cluster.Options{Name: name, Config: config, Data: data, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Discard(); err != nil { // nothing to do after an orderly stop
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", name, e.Log(40))
		}
	})
	return e
}

// stop stops a kernel in order.
func (e *env) stop(t *testing.T) {
	t.Helper()
	if err := e.Stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// keep stores a ConfigMap that later starts have to find.
func (e *env) keep(ctx context.Context, name string) error {
	_, err := e.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name},
	}, metav1.CreateOptions{})
	return err
}

// kept fails when a ConfigMap of keep is missing.
func (e *env) kept(t *testing.T, names ...string) {
	t.Helper()
	list, err := e.client.CoreV1().ConfigMaps("default").List(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, c := range list.Items {
		have[c.Name] = c.Data["name"] == c.Name
	}
	for _, n := range names {
		if !have[n] {
			t.Errorf("ConfigMap %s was acknowledged and is missing", n)
		}
	}
}

// write puts a text into a new file.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// copyBundle copies a built bundle into a catalog of the test's own.
func copyBundle(t *testing.T, bundle, catalog, as string) string {
	t.Helper()
	dir := filepath.Join(catalog, as)
	if err := os.CopyFS(dir, os.DirFS(bundle)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// replace edits a file; old has to be in it.
func replace(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%q is not in %s", old, path)
	}
	write(t, path, strings.Replace(string(text), old, new, 1))
}

// lineOf is the number of the first line of a file that contains words.
func lineOf(t *testing.T, path, words string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, words) {
			return i + 1
		}
	}
	t.Fatalf("%q is not in %s", words, path)
	return 0
}

// copyFile copies a program or a file.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}
