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
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/e2e/bench/rig"
	"pintle.dev/pintle/e2e/cluster"
)

// namespace is where the work is.
const namespace = "bench"

// token is the administrator's of upstream, on loopback.
const token = "bench-controllers-on-loopback"

// side is a running cluster: an API server with its store, a scheduler and controllers.
type side struct {
	name       string
	dir        string
	cfg        *rest.Config
	client     kubernetes.Interface
	kubeconfig string
	// servers are the processes of the control plane, controllers those of them that run
	// the controllers alone; kernel is Pintle's own, or kube-apiserver.
	servers, controllers func() ([]int, error)
	kernel               int
	hollow               *rig.Program
	end                  func() error
}

// A starter starts a side on an empty folder.
type starter func(ctx context.Context, o options, dir string, r row) (*side, error)

// stop ends the nodes and then the rest.
func (s *side) stop() error {
	var err error
	if s.hollow != nil {
		err = s.hollow.Stop(syscall.SIGTERM)
	}
	return errors.Join(err, s.end())
}

// fast is a client with protobuf and without a rate limit.
func (s *side) fast() error {
	cfg := rest.CopyConfig(s.cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	cfg.QPS = -1
	var err error
	s.client, err = kubernetes.NewForConfig(cfg)
	return err
}

// ready waits for what pods need in their namespace.
func (s *side) ready(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	return until(ctx, func() error {
		if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err := s.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// until tries until there is no error.
func until(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// startNodes starts hollow nodes in a process of their own and waits until pods can go
// there.
func (s *side) startNodes(ctx context.Context, n int) (err error) {
	step("%d hollow nodes", n)
	ready := func(ctx context.Context) error {
		list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		free := 0
		for i := range list.Items {
			if len(list.Items[i].Spec.Taints) == 0 && isReady(&list.Items[i]) {
				free++
			}
		}
		if free < n {
			return fmt.Errorf("%d of %d nodes take pods", free, n)
		}
		return nil
	}
	s.hollow, err = rig.StartProgram(ctx, "pintle", s.dir, func(context.Context) error { return nil },
		"hollow", "--nodes", strconv.Itoa(n), "--kubeconfig", s.kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return until(ctx, func() error {
		if err := s.hollow.Ended(); err != nil {
			cancel(err)
			return err
		}
		return ready(ctx)
	})
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// used is the processor time so far: of the control plane, of the controllers in it (zero
// where they are not apart) and of the nodes, and the requests that the API server had.
type used struct {
	servers, controllers, nodes time.Duration
	requests                    requests
}

func (s *side) used() (u used, err error) {
	sum := func(list func() ([]int, error)) (d time.Duration) {
		pids, e := list()
		err = errors.Join(err, e)
		for _, pid := range pids {
			d += rig.ProcessorTime(pid)
		}
		return d
	}
	u.servers, u.controllers = sum(s.servers), sum(s.controllers)
	if s.hollow != nil {
		u.nodes = processorTimeWith(s.hollow.Pid())
	}
	var e error
	u.requests, e = s.requested()
	return u, errors.Join(err, e)
}

// processorTimeWith is that of a process and those that it started.
func processorTimeWith(pid int) (d time.Duration) {
	list, err := rig.Weigh(pid)
	if err != nil {
		return 0
	}
	for _, p := range list {
		d += rig.ProcessorTime(p.PID)
	}
	return d
}

// per is what was used since, by each of n, for a note.
func (s *side) per(before used, n int) string {
	now, err := s.used()
	if err != nil {
		return err.Error()
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	return fmt.Sprintf("each %.0f us of processor time in the control plane, of it controllers %.0f, and %.0f in nodes; requests: %s",
		each(now.servers-before.servers), each(now.controllers-before.controllers), each(now.nodes-before.nodes), before.requests.since(now.requests, n))
}

// weight is what processes hold, in MB.
func weight(list func() ([]int, error)) (rss, anonymous float64, err error) {
	pids, err := list()
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range pids {
		p, err := rig.Measure(pid)
		if err != nil {
			return 0, 0, err
		}
		rss, anonymous = rss+rig.MB(p.RSS), anonymous+rig.MB(p.Anonymous)
	}
	return rss, anonymous, nil
}

func fixed(pids ...int) func() ([]int, error) { return func() ([]int, error) { return pids, nil } }

// pintleConfig is the kernel's configuration: controllers and scheduler of
// configs/standalone.yaml, without a node of its own.
func pintleConfig(o options, r row) (string, error) {
	repo, err := cluster.Repository()
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(repo, "configs", "standalone.yaml"))
	if err != nil {
		return "", err
	}
	var config struct {
		Plugins struct {
			Bundles []map[string]any `json:"bundles"`
		} `json:"plugins"`
		Scheduler   map[string]any `json:"scheduler"`
		Controllers map[string]any `json:"controllers"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return "", fmt.Errorf("standalone.yaml: %w", err)
	}
	bundles := slices.DeleteFunc(config.Plugins.Bundles, func(b map[string]any) bool {
		return !slices.Contains([]string{"modern", "volumebinding", "controllers"}, fmt.Sprint(b["name"]))
	})
	scheduler := map[string]any{"enabled": false}
	if !r.unscheduled {
		scheduler = config.Scheduler
	}
	if r.alone {
		if err := grace(bundles, o.grace()); err != nil {
			return "", err
		}
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "config.pintle.dev/v1alpha1", "kind": "KernelConfiguration", "dataDir": ".data-bench",
		"logging":     map[string]any{"level": "warn"},
		"api":         map[string]any{"bindAddress": "127.0.0.1", "maxRequestsInflight": 5000, "maxMutatingRequestsInflight": 5000},
		"node":        map[string]any{"enabled": false},
		"plugins":     map[string]any{"bundles": bundles},
		"scheduler":   scheduler,
		"controllers": config.Controllers,
	})
	return string(text), err
}

func startPintle(ctx context.Context, o options, dir string, r row) (*side, error) {
	text, err := pintleConfig(o, r)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{SuperAdmin: true, Name: "bench-controllers", Config: config, Data: filepath.Join(dir, "d")})
	if err != nil {
		return nil, err
	}
	s := &side{name: "pintle", dir: dir, kubeconfig: c.Kubeconfig, kernel: c.Pid(), end: func() error { return c.Stop(syscall.SIGTERM) }}
	named := func(want func(rig.Process) bool) func() ([]int, error) {
		return func() (pids []int, err error) {
			list, err := rig.Weigh(c.Pid())
			for _, p := range list {
				if want(p) {
					pids = append(pids, p.PID)
				}
			}
			return pids, err
		}
	}
	s.servers = named(func(rig.Process) bool { return true })
	s.controllers = named(func(p rig.Process) bool { return p.Name == "controllers" })
	if _, s.cfg, err = c.Client(); err == nil {
		err = s.fast()
	}
	if err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// startUpstream starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
func startUpstream(ctx context.Context, _ options, dir string, r row) (_ *side, err error) {
	var running []*rig.Program
	s := &side{name: "kube-controller-manager", dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	s.end = func() (err error) {
		for _, p := range slices.Backward(running) {
			err = errors.Join(err, p.Stop(syscall.SIGTERM))
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	etcd, url, err := rig.StartEtcd(ctx, dir)
	if err != nil {
		return nil, err
	}
	running = append(running, etcd)
	ports, err := rig.FreePorts(3)
	if err != nil {
		return nil, err
	}
	key, tokens := filepath.Join(dir, "sa.key"), filepath.Join(dir, "tokens.csv")
	if err := rig.WriteKey(key); err != nil {
		return nil, err
	}
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	s.cfg = &rest.Config{Host: "https://127.0.0.1:" + ports[0], BearerToken: token}
	s.cfg.Insecure = true // it makes its own certificate, for loopback
	if err := os.WriteFile(s.kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: bench, user: {token: %s}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
current-context: bench
`, s.cfg.Host, token), 0o600); err != nil {
		return nil, err
	}
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer asking.CloseIdleConnections()
	start := func(name, port, path string, args ...string) error {
		p, err := rig.StartProgram(ctx, name, dir, func(ctx context.Context) error { return rig.OKAt(ctx, asking, "https://127.0.0.1:"+port+path) },
			append(args, "--bind-address", "127.0.0.1", "--secure-port", port, "--v", "0")...)
		if err == nil {
			running = append(running, p)
		}
		return err
	}
	if err := start("kube-apiserver", ports[0], "/readyz", "--etcd-servers", url, "--cert-dir", filepath.Join(dir, "pki"),
		"--token-auth-file", tokens, "--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--service-account-issuer", "https://bench.local", "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-cluster-ip-range", "10.96.0.0/24", "--endpoint-reconciler-type", "none",
		"--max-requests-inflight", "5000", "--max-mutating-requests-inflight", "5000", "--enable-priority-and-fairness=false",
		"--http2-max-streams-per-connection", "1000", "--profiling=false"); err != nil {
		return nil, err
	}
	s.kernel = running[1].Pid()
	if err := start("kube-controller-manager", ports[1], "/healthz", "--kubeconfig", s.kubeconfig,
		"--authentication-kubeconfig", s.kubeconfig, "--authorization-kubeconfig", s.kubeconfig, "--cert-dir", filepath.Join(dir, "kcm"),
		"--service-account-private-key-file", key, "--leader-elect=false", "--profiling=false",
		"--kube-api-qps", "5000", "--kube-api-burst", "10000", "--kube-api-content-type", runtime.ContentTypeProtobuf,
		"--concurrent-deployment-syncs", "50", "--concurrent-replicaset-syncs", "50", "--concurrent-job-syncs", "50",
		"--concurrent-namespace-syncs", "50", "--concurrent-gc-syncs", "50", "--concurrent-service-endpoint-syncs", "50"); err != nil {
		return nil, err
	}
	s.controllers = fixed(running[2].Pid())
	if !r.unscheduled {
		config := filepath.Join(dir, "scheduler.yaml")
		if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000, contentType: application/vnd.kubernetes.protobuf}
leaderElection: {leaderElect: false}
enableProfiling: false
`, s.kubeconfig), 0o600); err != nil {
			return nil, err
		}
		if err := start("kube-scheduler", ports[2], "/readyz", "--config", config, "--cert-dir", filepath.Join(dir, "scheduler")); err != nil {
			return nil, err
		}
	}
	var pids []int
	for _, p := range running {
		pids = append(pids, p.Pid())
	}
	s.servers = fixed(pids...)
	return s, s.fast()
}
