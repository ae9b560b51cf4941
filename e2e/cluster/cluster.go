package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// startTimeout is how long a start may take: a busy machine unpacks images
	// and compiles plugins the first time.
	startTimeout = 3 * time.Minute
	// stopTimeout is how long an orderly stop may take.
	stopTimeout = 2 * time.Minute
)

// Options say what to start.
type Options struct {
	// Name of the cluster; its log is build/e2e/NAME.log.
	Name string
	// Config is a configuration file, relative to the repository or absolute.
	Config string
	// Data is the data directory; empty makes one that Stop removes. A given
	// one stays.
	Data string
	// Set are values for --set.
	Set []string
	// Cold: it has no modules that an earlier cluster compiled.
	Cold bool
	// Env is added to the environment.
	Env []string
	// SuperAdmin makes Kubeconfig that of system:masters, whose requests wait for
	// no turn: as what other API servers are measured by.
	SuperAdmin bool
	// OwnThresholds: the node evicts and removes images as its configuration says, or by
	// default. Otherwise it does so only where the disk is all but full.
	OwnThresholds bool
	// Network is where to run; nil is the machine's own.
	Network *Network
	// Etcd may run in Network without being the cluster's.
	Etcd *Etcd
	// Absent are programs of this machine that the cluster does not find, by path.
	Absent []string
	// Program is the kernel; empty is that in Bin.
	Program string
	// Node is the name of the kernel's node, where others of the cluster have nodes too;
	// empty leaves it to the configuration.
	Node string
	// Of is the cluster whose node this is: `pintle node` runs in place of `pintle serve`.
	// Nil: it is a kernel. Join is what it has in --join-file; empty: it has joined.
	Of   *Cluster
	Join string
}

// Cluster is one running `pintle serve`, or `pintle node`.
type Cluster struct {
	Options
	// Kubeconfig is the path that serve printed, or with SuperAdmin the one beside it.
	Kubeconfig string

	before snapshot // what the network held before the start

	repo   string
	made   bool // the data directory, by Start
	cmd    *exec.Cmd
	screen *lines
	stderr *lines
	exited chan struct{}
	err    error // of the process; valid after exited
}

// Repository is the root of the module, from the folder of a test.
func Repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// Bin is the folder of the built programs: bin, or what E2E_BIN names.
func Bin() (string, error) {
	if dir := os.Getenv("E2E_BIN"); dir != "" {
		return filepath.Abs(dir)
	}
	repo, err := Repository()
	return filepath.Join(repo, "bin"), err
}

// Start starts a cluster and returns when it has printed that it is ready; with
// a node, when the node has started too. After an error nothing runs.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	repo, err := Repository()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Options: o, repo: repo, screen: newLines(), stderr: newLines(), exited: make(chan struct{})}
	if o.Data == "" {
		// Short, since paths of sockets lie below it.
		if c.Data, err = os.MkdirTemp("", "pte"); err != nil {
			return nil, err
		}
		c.made = true
		if err := checkRoom(c.Data); err != nil {
			return nil, errors.Join(err, os.Remove(c.Data))
		}
	}
	if !filepath.IsAbs(c.Config) {
		c.Config = filepath.Join(repo, c.Config)
	}
	if c.before, err = takeSnapshot(c.Network); err == nil && c.Of == nil {
		err = c.compiledBefore()
	}
	if err == nil {
		err = c.start()
	}
	if err != nil {
		if c.made {
			err = errors.Join(err, os.RemoveAll(c.Data))
		}
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if c.Kubeconfig, err = c.awaitReady(ctx); err != nil {
		select {
		case <-c.exited:
			err = fmt.Errorf("%w (%v)", err, c.err) // by a signal, or a status
		default:
			c.Kill()
		}
		return nil, errors.Join(fmt.Errorf("start cluster %s: %w\n%s", o.Name, err, c.Log(40)), c.clean())
	}
	if c.Of != nil {
		c.Kubeconfig = c.Of.Kubeconfig
		return c, nil
	}
	if err := c.keepCompiled(); err != nil {
		c.Kill()
		return nil, errors.Join(err, c.clean())
	}
	if o.SuperAdmin {
		c.Kubeconfig = filepath.Join(filepath.Dir(c.Kubeconfig), "super-admin.kubeconfig")
	}
	return c, nil
}

func (c *Cluster) start() error {
	args := []string{"serve", "--config", c.Config, "--data", c.Data, "--set", "api.port=0", "--set", "node.kubeletPort=0"}
	if c.Of != nil {
		args[0] = "node"
		if c.Join != "" {
			args = append(args, "--join-file", "-")
		}
	}
	if !c.OwnThresholds && c.Program == "" { // another build may not know them
		for _, s := range thresholds() {
			args = append(args, "--set", s)
		}
	}
	if c.Node != "" {
		args = append(args, "--set", "node.name="+c.Node)
	}
	for _, s := range c.Set {
		args = append(args, "--set", s)
	}
	logDir := filepath.Join(c.repo, "build", "e2e")
	if err := os.MkdirAll(logDir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(logDir, c.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	bin, err := Bin()
	if err != nil {
		return err
	}
	program := c.Program
	if program == "" {
		program = filepath.Join(bin, "pintle")
	}
	if len(c.Absent) > 0 {
		program, args = without(c.Absent, program, args)
	}
	c.cmd = exec.Command(program, args...)
	c.cmd.Dir = c.repo
	if c.Join != "" {
		c.cmd.Stdin = strings.NewReader(c.Join + "\n")
	}
	c.cmd.Env = append(os.Environ(), c.Env...)
	c.cmd.Stdout, c.cmd.Stderr = io.MultiWriter(c.screen, log), io.MultiWriter(c.stderr, log)
	// A session of its own, by which its children are found, and that Ctrl-C
	// of the tests does not reach; it ends in order when the tests are killed.
	c.cmd.WaitDelay = 5 * time.Second
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.Network.Start(c.cmd); err != nil {
		return errors.Join(fmt.Errorf("start cluster %s: %w; run make build", c.Name, err), log.Close())
	}
	go func() {
		c.err = c.cmd.Wait()
		log.Close()
		close(c.exited)
	}()
	return nil
}

// without is a command that runs a program where files are no programs: in mounts of its
// own, as the same process.
func without(absent []string, program string, args []string) (string, []string) {
	const script = `while [ "$1" != -- ]; do mount --bind /dev/null "$1"; shift; done; shift; exec "$@"`
	return "unshare", slices.Concat([]string{"--mount", "--propagation", "slave", "sh", "-ec", script, "sh"}, absent, []string{"--", program}, args)
}

// awaitReady waits for the lines that scripts rely on.
func (c *Cluster) awaitReady(ctx context.Context) (string, error) {
	var kubeconfig string
	wantNode := c.Of == nil && c.runsNode() // a machine without a kernel says that it is ready when its node is
	err := c.screen.await(ctx, c.exited, func(all []string) bool {
		var ready, node bool
		for _, l := range all {
			if path, ok := strings.CutPrefix(l, "kubeconfig: "); ok {
				kubeconfig = path
			}
			ready = ready || strings.HasPrefix(l, "ready in ")
			node = node || strings.HasPrefix(l, "  node ")
		}
		return ready && (node || !wantNode)
	})
	return kubeconfig, err
}

func (c *Cluster) runsNode() bool {
	for _, s := range c.Set {
		if s == "node.enabled=false" {
			return false
		}
	}
	data, err := os.ReadFile(c.Config)
	return err == nil && bytes.Contains(data, []byte("\nnode:\n  enabled: true"))
}

// Pid of the kernel.
func (c *Cluster) Pid() int { return c.cmd.Process.Pid }

// Signal sends a signal to the kernel.
func (c *Cluster) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// Exited is closed when the kernel has ended.
func (c *Cluster) Exited() <-chan struct{} { return c.exited }

// Err is how the kernel ended; valid after Exited.
func (c *Cluster) Err() error { return c.err }

// Screen is what was printed on standard output.
func (c *Cluster) Screen() []string { return c.screen.all() }

// Log is the end of standard error.
func (c *Cluster) Log(last int) string {
	all := c.stderr.all()
	if len(all) > last {
		all = all[len(all)-last:]
	}
	return strings.Join(all, "\n")
}

// AwaitLog waits until a line of standard error contains all words.
func (c *Cluster) AwaitLog(ctx context.Context, words ...string) error {
	return c.stderr.await(ctx, c.exited, func(all []string) bool {
		for _, l := range all {
			found := true
			for _, w := range words {
				found = found && strings.Contains(l, w)
			}
			if found {
				return true
			}
		}
		return false
	})
}

// Stop sends a signal, waits for the end and reports everything that is left.
// A data directory that Start made is removed.
func (c *Cluster) Stop(sig os.Signal) error {
	pods := c.podUIDs()
	if err := c.cmd.Process.Signal(sig); err != nil {
		<-c.exited // by a signal, or a status
		return errors.Join(fmt.Errorf("stop cluster %s: %w: %v\n%s", c.Name, err, c.err, c.Log(40)), c.clean())
	}
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		c.Kill()
		return errors.Join(fmt.Errorf("cluster %s did not stop within %s\n%s", c.Name, stopTimeout, c.Log(40)), c.clean())
	}
	var errs []error
	if c.err != nil {
		errs = append(errs, fmt.Errorf("cluster %s ended with %w\n%s", c.Name, c.err, c.Log(20)))
	}
	if screen := c.Screen(); len(screen) == 0 || screen[len(screen)-1] != "stopped" {
		errs = append(errs, fmt.Errorf("cluster %s did not say that it stopped, but:\n%s", c.Name, strings.Join(screen, "\n")))
	}
	for _, left := range c.leftovers(pods) {
		errs = append(errs, fmt.Errorf("cluster %s left behind: %s", c.Name, left))
	}
	return errors.Join(append(errs, c.clean())...)
}

// Leave stops the kernel in order where its configuration lets pods go on: they
// do, with what they hold. Start with the same data directory continues.
func (c *Cluster) Leave() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-c.exited
		return fmt.Errorf("stop cluster %s: %w: %v\n%s", c.Name, err, c.err, c.Log(40))
	}
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		c.Kill()
		return fmt.Errorf("cluster %s did not stop within %s\n%s", c.Name, stopTimeout, c.Log(40))
	}
	if c.err != nil {
		return fmt.Errorf("cluster %s ended with %w\n%s", c.Name, c.err, c.Log(20))
	}
	return nil
}

// Kill ends the kernel by force, as a crash does; its containers go on. Start
// with the same data directory continues, Stop of that one cleans up.
func (c *Cluster) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// Discard ends the kernel by force, where it has not ended, and takes away what it left: its
// processes, and a data directory that Start made.
func (c *Cluster) Discard() error {
	c.Kill()
	return c.clean()
}

// Client is a client-go client of the administrator.
func (c *Cluster) Client() (kubernetes.Interface, *rest.Config, error) {
	if c.Of != nil {
		return c.Of.Client()
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	cfg.Dial = c.Network.Dial
	cfg.QPS, cfg.Burst = 200, 400
	client, err := kubernetes.NewForConfig(cfg)
	return client, cfg, err
}

// Command is a program of this machine that runs in the cluster's network with
// its kubeconfig.
func (c *Cluster) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = c.repo
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+filepath.Join(c.Data, "kubectl"), "PINTLE_DATADIR="+c.Data)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Path is a file of the repository.
func (c *Cluster) Path(parts ...string) string {
	return filepath.Join(append([]string{c.repo}, parts...)...)
}
