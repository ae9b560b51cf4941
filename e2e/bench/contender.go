package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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

// policy is what Pintle decides by: plugins by their points, from bundles.
type policy struct {
	name                               string
	bundles                            []string
	predicates, priorities, postFilter []string
	// weights of priorities, where it is not 1.
	weights map[string]int
}

// modern is kube-scheduler's default set, in its order and with its weights.
// Where upstream has one name at several points, the priority is called NameScore.
var modern = struct {
	predicates, priorities, postFilter []string
	weights                            map[string]int
}{
	predicates: []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
		"NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
	},
	priorities: []string{
		"TaintTolerationScore", "NodeAffinityScore", "NodeResourcesFitScore", "PodTopologySpreadScore", "InterPodAffinityScore", "NodeResourcesBalancedAllocation", "ImageLocality",
	},
	postFilter: []string{"DefaultPreemption"},
	weights:    map[string]int{"TaintTolerationScore": 3, "NodeAffinityScore": 2, "PodTopologySpreadScore": 2, "InterPodAffinityScore": 2},
}

// classicPolicy is the classic set, as configs/classic.yaml has it.
func classicPolicy() policy {
	return policy{
		name: "classic set", bundles: []string{"classic"},
		predicates: []string{
			"CheckNodeUnschedulable", "HostName", "PodToleratesNodeTaints", "MatchNodeSelector", "PodFitsHostPorts", "PodFitsResources", "NoDiskConflict",
			"MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NoVolumeZoneConflict",
		},
		priorities: []string{
			"LeastRequestedPriority", "BalancedResourceAllocation", "SelectorSpreadPriority", "NodeAffinityPriority", "ServiceSpreadingPriority",
			"ImageLocalityPriority", "EqualPriority",
		},
	}
}

// builtPolicy is the modern set as far as it is built, or the classic one where
// there is no bundle of that name.
func builtPolicy() (policy, error) {
	bin, err := cluster.Bin()
	if err != nil {
		return policy{}, err
	}
	raw, err := os.ReadFile(filepath.Join(bin, "plugins", "modern", "manifest.yaml"))
	if errors.Is(err, os.ErrNotExist) {
		return classicPolicy(), nil
	}
	if err != nil {
		return policy{}, err
	}
	var manifest struct {
		Plugins []struct{ Name, Kind string }
	}
	if err := yaml.Unmarshal(raw, &manifest); err != nil {
		return policy{}, fmt.Errorf("manifest of the modern set: %w", err)
	}
	have := func(kind string, names []string) (out []string) {
		for _, name := range names {
			for _, p := range manifest.Plugins {
				if p.Name == name && p.Kind == kind {
					out = append(out, name)
				}
			}
		}
		return out
	}
	p := policy{
		name: "modern set", bundles: []string{"modern"}, weights: modern.weights,
		predicates: have("predicate", modern.predicates), priorities: have("priority", modern.priorities), postFilter: have("post-filter", modern.postFilter),
	}
	return p, nil
}

// lacks names what of a row's needs the policy does not have; empty: nothing.
func (p policy) lacks(needs [][]string) string {
	var missing []string
	for _, names := range needs {
		if !slices.ContainsFunc(names, func(n string) bool {
			return slices.Contains(p.predicates, n) || slices.Contains(p.postFilter, n)
		}) {
			missing = append(missing, strings.Join(names, " or "))
		}
	}
	return strings.Join(missing, ", ")
}

// config is the kernel's, with all policy in WASM and no controllers.
func (p policy) config(scheduling bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: .data-bench
logging: {level: warn}
api: {bindAddress: 127.0.0.1, maxRequestsInflight: 5000, maxMutatingRequestsInflight: 5000}
node: {enabled: false}
controllers: {enabled: []}
plugins:
  bundles:
`)
	for _, name := range p.bundles {
		fmt.Fprintf(&b, "  - {name: %s, transport: wasm}\n", name)
	}
	fmt.Fprintf(&b, "scheduler:\n  enabled: %t\n  profiles:\n  - schedulerName: default-scheduler\n", scheduling)
	fmt.Fprintf(&b, "    predicates: [%s]\n    priorities:\n", strings.Join(p.predicates, ", "))
	for _, name := range p.priorities {
		fmt.Fprintf(&b, "    - {name: %s, weight: %d}\n", name, max(1, p.weights[name]))
	}
	if len(p.postFilter) > 0 {
		fmt.Fprintf(&b, "    postFilter: [%s]\n", strings.Join(p.postFilter, ", "))
	}
	return b.String()
}

// pintle starts the kernel. Its scheduler is part of it: one that was started
// without is stopped and started again with.
func (p policy) pintle(ctx context.Context, dir string, scheduling bool) (*contender, error) {
	c := &contender{dir: dir}
	start := func(ctx context.Context, scheduling bool) (err error) {
		c.apiServer, err = runKernel(ctx, "bench-peer", dir, p.config(scheduling))
		return err
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
		c.pids = append(c.pids, p.cmd.Process.Pid)
		c.stop = func(sig os.Signal) error { return errors.Join(p.stop(sig), stop(sig)) }
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
	return spare(ctx, n, 8, func(ctx context.Context, i int) error {
		return client.CoreV1().Pods(there).Delete(ctx, of(i).Name, deleteNow)
	})
}
