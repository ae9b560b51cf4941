package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// conformance is what the names of the suite's tests have in common.
const conformance = "[Conformance]"

// suite is a cluster, of one machine or two, and the programs that test it.
type suite struct {
	options
	ginkgo, tester, kubectl string
	dir                     string // of what ends with the run
	pair                    *cluster.Pair
	network                 *cluster.Network // where the tests run
	clusters                []*cluster.Cluster
	registries              []*cluster.Registry
}

// newSuite finds the programs. A cluster is started later, for the tests that are chosen.
func newSuite(o options, bin string) (*suite, error) {
	s := &suite{options: o, ginkgo: filepath.Join(bin, "conformance", "ginkgo"), tester: filepath.Join(bin, "conformance", "e2e.test")}
	for _, program := range []string{s.ginkgo, s.tester} {
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("%w; run make conformance, which builds it", err)
		}
	}
	return s, nil
}

// start starts standalone.yaml with a folder of images, in a network from which nothing
// leaves. With two nodes it is two kernels on one etcd.
func (s *suite) start(ctx context.Context, bin, images string, nodes int) (err error) {
	if s.dir, err = os.MkdirTemp("", "pcf"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	hosts := filepath.Join(s.dir, "hosts")
	config, err := s.writeConfig(images, hosts)
	if err != nil {
		return err
	}
	pulled, err := pulledImages(images)
	if err != nil {
		return err
	}
	s.kubectl = filepath.Join(s.dir, "kubectl")
	if err := os.WriteFile(s.kubectl, fmt.Appendf(nil, "#!/bin/sh\nexec %s kubectl \"$@\"\n", filepath.Join(bin, "pintle")), 0o755); err != nil {
		return err
	}
	o := cluster.Options{Name: "conformance", Config: config}
	if nodes == 1 {
		if s.network, err = cluster.NewNetwork(); err != nil {
			return err
		}
		o.Network = s.network
		if o.Set, err = s.families(s.network, 0); err != nil {
			return err
		}
		return s.add(ctx, o, pulled)
	}
	if s.pair, err = cluster.NewPair(ctx); err != nil {
		return err
	}
	s.network = s.pair.Networks[0]
	for i := range s.pair.Networks {
		o := s.pair.Options(i, o)
		set, err := s.families(s.pair.Networks[i], i)
		if err != nil {
			return err
		}
		o.Set = append(o.Set, set...)
		o.Name = fmt.Sprintf("conformance%d", i+1)
		if err := s.add(ctx, o, pulled); err != nil {
			return err
		}
	}
	return nil
}

// families are the settings by which a machine has both IP families, where that is asked for. Its network gets an address.
func (s *suite) families(n *cluster.Network, machine int) ([]string, error) {
	if !s.dual {
		return nil, nil
	}
	if err := n.AddIPv6(fmt.Sprintf("2001:db8:10::%d", 10+machine)); err != nil {
		return nil, err
	}
	return []string{
		"api.serviceCIDR=10.96.0.0/16,fd00:96::/112", fmt.Sprintf("node.podCIDR=10.244.%[1]d.0/24,fd00:244:0:%[1]d::/64", machine),
		"node.clusterCIDRs=[10.244.0.0/16, 'fd00:244::/56']",
	}, nil
}

// add starts a machine of the cluster, on which a registry has the images that are pulled.
func (s *suite) add(ctx context.Context, o cluster.Options, pulled map[string]v1.Image) error {
	if err := closeNetwork(ctx, o.Network); err != nil {
		return err
	}
	r, err := cluster.NewRegistry(o.Network, pulled)
	if err != nil {
		return err
	}
	s.registries = append(s.registries, r)
	c, err := cluster.Start(ctx, o)
	if err == nil {
		s.clusters = append(s.clusters, c)
	}
	return err
}

// closeNetwork refuses at once what would leave, so that a missing image or name
// fails soon. What is sent on to an address of a service does not leave, though the
// route of OUTPUT says so; nor does what is sent to the neighbour and its pods.
func closeNetwork(ctx context.Context, network *cluster.Network) error {
	const closed = "CLOSED"
	for _, args := range [][]string{
		{"-N", closed},
		{"-A", closed, "-d", cluster.NodeIP + "," + cluster.NeighbourIP + "," + cluster.PodRange, "-j", "RETURN"},
		{"-A", closed, "-j", "REJECT"},
		{"-A", "OUTPUT", "-o", "eth0", "-m", "conntrack", "!", "--ctstate", "DNAT", "-j", closed},
		{"-A", "FORWARD", "-o", "eth0", "-m", "conntrack", "!", "--ctstate", "DNAT", "-j", closed},
	} {
		cmd := exec.CommandContext(ctx, "iptables", args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := errors.Join(network.Start(cmd), cmd.Wait()); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd, err, out.Bytes())
		}
	}
	return nil
}

// writeConfig is standalone.yaml whose container runtime has the images, and asks the
// registry of its machine for those that are pulled in spite of that. The folder hosts is
// made.
func (s *suite) writeConfig(images, hosts string) (string, error) {
	mirror := filepath.Join(hosts, imageRegistry)
	if err := os.MkdirAll(mirror, 0o755); err != nil {
		return "", err
	}
	toml := fmt.Appendf(nil, "[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", cluster.RegistryAddress)
	if err := os.WriteFile(filepath.Join(mirror, "hosts.toml"), toml, 0o644); err != nil {
		return "", err
	}
	repo, err := cluster.Repository()
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(repo, "configs", "standalone.yaml"))
	if err != nil {
		return "", err
	}
	const bundle = "  - name: containerd\n"
	if !bytes.Contains(data, []byte(bundle)) {
		return "", errors.New("configs/standalone.yaml has no line that names the bundle containerd")
	}
	data = bytes.Replace(data, []byte(bundle), fmt.Appendf(nil, "%s    config:\n      containerd: {images: %s, registryHosts: %s}\n", bundle, images, hosts), 1)
	path := filepath.Join(s.dir, "standalone.yaml")
	return path, os.WriteFile(path, data, 0o644)
}

// stop ends the cluster; the machine that ends last answers until then.
func (s *suite) stop() error {
	var errs []error
	for _, c := range slices.Backward(s.clusters) {
		errs = append(errs, c.Stop(syscall.SIGTERM))
	}
	for _, r := range s.registries {
		errs = append(errs, r.Close())
	}
	if s.pair != nil {
		errs = append(errs, s.pair.Close())
	} else {
		errs = append(errs, s.network.Close())
	}
	s.clusters, s.registries, s.pair, s.network = nil, nil, nil, nil
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// tests are the names of the suite's tests, sorted.
func (s *suite) tests(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, s.tester, "--list-tests").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		// file.go:line: name
		if _, name, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && (s.all || strings.Contains(name, conformance)) {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the suite has no tests")
	}
	slices.Sort(all)
	return all, nil
}

// stages are how the tests run: some disturb others.
var stages = []struct {
	name   string
	serial bool
}{{"parallel", false}, {"serial", true}}

// run has ginkgo run tests in the cluster that was started, and takes in how they ended.
// suffix tells its reports from those of another cluster.
func (s *suite) run(ctx context.Context, tests []string, suffix string, r *results) error {
	for _, stage := range stages {
		var names []string
		for _, name := range tests {
			if strings.Contains(name, "[Serial]") == stage.serial {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		procs := s.procs
		if stage.serial {
			procs = 1
		}
		began := time.Now()
		if err := s.stage(ctx, stage.name+suffix, names, procs); err != nil {
			return err
		}
		if err := r.read(filepath.Join(s.out, stage.name+suffix+".json")); err != nil {
			return err
		}
		fmt.Printf("%s: %d tests, %d at a time, %s\n", stage.name+suffix, len(names), procs, time.Since(began).Round(time.Second))
	}
	return nil
}

// stage runs tests by their names. That some of them fail is no error.
func (s *suite) stage(ctx context.Context, stage string, names []string, procs int) error {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	report := filepath.Join(s.out, stage+".json")
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, err := os.Create(filepath.Join(s.out, stage+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Printf("%s: log in %s\n", stage, log.Name())
	cmd := exec.CommandContext(ctx, s.ginkgo, "--procs", fmt.Sprint(procs), "--no-color", "--silence-skips", "--keep-going",
		"--timeout", s.limit.String(), "--grace-period", "20s", "--focus", " ("+strings.Join(quoted, "|")+")$", // behind the suite's own name
		"--output-dir", s.out, "--json-report", filepath.Base(report), "--junit-report", "junit-"+stage+".xml", s.tester, "--",
		"--kubeconfig", s.clusters[0].Kubeconfig, "--kubectl-path", s.kubectl, "--provider=skeleton", "--minStartupPods=0", "--prepull-images=false",
		"--node-schedulable-timeout=1m", "--system-pods-startup-timeout=1m",
		// The log of a node is the kernel's.
		"--disable-log-dump=true", "--max-nodes-to-gather-from=0")
	if s.dual { // tests of services ask for it
		cmd.Args = append(cmd.Args, fmt.Sprintf("--num-nodes=%d", len(s.clusters)))
	}
	cmd.Env = append(os.Environ(), "TMPDIR="+s.dir) // its tests leave folders behind
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := s.network.Start(cmd); err != nil {
		return fmt.Errorf("start ginkgo: %w", err)
	}
	var failed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("ginkgo: %w", err)
	}
	return ctx.Err()
}
