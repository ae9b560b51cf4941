package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/e2e/cluster"
)

// contender is one side of bench-peer: an API server with its store and a
// scheduler.
type contender struct {
	*apiServer
	dir string
	// schedule starts the scheduler, where the contender was started without. The
	// apiServer may be another one afterwards.
	schedule func(context.Context) error
}

// A starter starts a contender on an empty folder, with its scheduler or without.
type starter func(ctx context.Context, dir string, scheduling bool) (*contender, error)

// policy is what Pintle decides by: the profiles of a configuration file, with
// those of its bundles that they name plugins of.
type policy struct {
	name      string
	bundles   []map[string]any
	scheduler map[string]any
	limits    map[string]any // of plugins, other than the defaults
}

// policyOf reads the policy of a file in configs.
func policyOf(name, file string) (policy, error) {
	p := policy{name: name}
	repo, err := cluster.Repository()
	if err != nil {
		return p, err
	}
	raw, err := os.ReadFile(filepath.Join(repo, "configs", file))
	if err != nil {
		return p, err
	}
	var config struct {
		Plugins   struct{ Bundles []map[string]any }
		Scheduler map[string]any
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	p.scheduler = config.Scheduler
	bin, err := cluster.Bin()
	if err != nil {
		return p, err
	}
	named := p.plugins()
	for _, b := range config.Plugins.Bundles {
		raw, err := os.ReadFile(filepath.Join(bin, "plugins", fmt.Sprint(b["name"]), "manifest.yaml"))
		if err != nil {
			return p, fmt.Errorf("%w; run make build", err)
		}
		var manifest struct{ Plugins []struct{ Name string } }
		if err := yaml.Unmarshal(raw, &manifest); err != nil {
			return p, fmt.Errorf("manifest of bundle %s: %w", b["name"], err)
		}
		if slices.ContainsFunc(manifest.Plugins, func(one struct{ Name string }) bool { return named[one.Name] }) {
			p.bundles = append(p.bundles, b)
		}
	}
	return p, nil
}

// plugins are the names in the profiles.
func (p policy) plugins() map[string]bool {
	names := map[string]bool{}
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			names[v] = true
		case []any:
			for _, one := range v {
				collect(one)
			}
		case map[string]any:
			for _, one := range v {
				collect(one)
			}
		}
	}
	collect(p.scheduler["profiles"])
	return names
}

// policy is the one of the command line.
func (o options) policy() (policy, error) {
	switch o.peerPolicy {
	case "modern":
		return policyOf("modern set", "standalone.yaml")
	case "classic":
		return policyOf("classic set", "classic.yaml")
	}
	return policy{}, fmt.Errorf("no policy %q; there are: modern, classic", o.peerPolicy)
}

// lacks names what of a row's needs the policy does not have; empty: nothing.
func (p policy) lacks(needs [][]string) string {
	have := p.plugins()
	var missing []string
	for _, names := range needs {
		if !slices.ContainsFunc(names, func(n string) bool { return have[n] }) {
			missing = append(missing, strings.Join(names, " or "))
		}
	}
	return strings.Join(missing, ", ")
}

// config is the kernel's, with nothing but the policy, whose decisions are all
// made in WASM.
func (p policy) config(scheduling bool) (string, error) {
	scheduler := maps.Clone(p.scheduler)
	scheduler["enabled"] = scheduling
	plugins := map[string]any{"bundles": p.bundles}
	maps.Copy(plugins, p.limits)
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "config.pintle.dev/v1alpha1", "kind": "KernelConfiguration", "dataDir": ".data-bench",
		"logging":     map[string]any{"level": "warn"},
		"api":         map[string]any{"bindAddress": "127.0.0.1", "maxRequestsInflight": 5000, "maxMutatingRequestsInflight": 5000},
		"node":        map[string]any{"enabled": false},
		"controllers": map[string]any{"enabled": []string{}},
		"plugins":     plugins,
		"scheduler":   scheduler,
	})
	return string(raw), err
}

// pintle starts the kernel. Its scheduler is part of it: one that was started
// without is stopped and started again with.
func (p policy) pintle(ctx context.Context, dir string, scheduling bool) (*contender, error) {
	c := &contender{dir: dir}
	start := func(ctx context.Context, scheduling bool) error {
		text, err := p.config(scheduling)
		if err != nil {
			return err
		}
		if c.apiServer, err = runKernel(ctx, "bench-peer", dir, text); err != nil {
			return err
		}
		all, err := weigh(c.pids[0])
		if err != nil {
			return errors.Join(err, c.stop(syscall.SIGTERM))
		}
		for _, p := range all { // plugins in processes count too
			if p.PID != c.pids[0] {
				c.pids = append(c.pids, p.PID)
			}
		}
		return nil
	}
	c.schedule = func(ctx context.Context) error {
		if err := c.stop(syscall.SIGTERM); err != nil {
			return err
		}
		return start(ctx, true)
	}
	return c, start(ctx, scheduling)
}

// upstream starts etcd, kube-apiserver and kube-scheduler.
func upstream(ctx context.Context, dir string, scheduling bool) (_ *contender, err error) {
	c := &contender{dir: dir}
	if c.apiServer, err = startUpstream(ctx, dir); err != nil {
		return nil, err
	}
	c.name = "kube-scheduler"
	c.schedule = func(ctx context.Context) error {
		p, err := startKubeScheduler(ctx, dir, c.cfg.Host)
		if err != nil {
			return err
		}
		stop := c.stop
		c.pids = append(c.pids, p.Pid())
		c.stop = func(sig os.Signal) error { return errors.Join(p.Stop(sig), stop(sig)) }
		return nil
	}
	if scheduling {
		if err := c.schedule(ctx); err != nil {
			return nil, errors.Join(err, c.stop(syscall.SIGTERM))
		}
	}
	return c, nil
}

// startKubeScheduler starts kube-scheduler with its defaults, but for a client
// that nothing holds back. It speaks protobuf, as by default.
func startKubeScheduler(ctx context.Context, dir, host string) (*program, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	kubeconfig, config := filepath.Join(dir, "scheduler.kubeconfig"), filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: bench, user: {token: %s}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
current-context: bench
`, host, benchToken), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000, contentType: application/vnd.kubernetes.protobuf}
leaderElection: {leaderElect: false}
enableProfiling: false
`, kubeconfig), 0o600); err != nil {
		return nil, err
	}
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer asking.CloseIdleConnections()
	return startProgram(ctx, "kube-scheduler", dir,
		func(ctx context.Context) error { return okAt(ctx, asking, "https://127.0.0.1:"+ports[0]+"/readyz") },
		"--config", config, "--bind-address", "127.0.0.1", "--secure-port", ports[0], "--cert-dir", filepath.Join(dir, "scheduler-pki"), "--v", "0")
}

// warm has a pod bound, which is then removed: what the first pod alone costs
// is over.
func (c *contender) warm(ctx context.Context, client kubernetes.Interface) error {
	of := func(i int) *corev1.Pod {
		p := identical(i)
		p.Name = "warm-" + p.Name
		p.Spec.TerminationGracePeriodSeconds = new(int64)
		return p
	}
	const n = 50
	if err := createAll(ctx, client, there, n, 8, of); err != nil {
		return err
	}
	if err := awaitPods(ctx, client, there, n, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }); err != nil {
		return fmt.Errorf("the first pods: %w", err)
	}
	return parallel(ctx, n, 8, func(ctx context.Context, i int) error {
		return client.CoreV1().Pods(there).Delete(ctx, of(i).Name, deleteNow)
	})
}
