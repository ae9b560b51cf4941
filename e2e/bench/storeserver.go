package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

// storeConfig is a kernel that stores and serves, with the limits that
// kube-apiserver gets here too.
const storeConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: .data-bench
logging: {level: warn}
api: {bindAddress: 127.0.0.1, maxRequestsInflight: 5000, maxMutatingRequestsInflight: 5000}
store: {historyRetention: %s}
scheduler: {enabled: false}
node: {enabled: false}
`

// apiServer is a running server of the Kubernetes API with its store.
type apiServer struct {
	name string
	cfg  *rest.Config
	// etcd is the URL of upstream's store.
	etcd string
	pids []int
	// ready is how long it took from the start of the first process until
	// /readyz was ok.
	ready time.Duration
	stop  func(os.Signal) error
}

// client is client-go with protobuf and without a rate limit.
func (s *apiServer) client() (kubernetes.Interface, error) {
	cfg := rest.CopyConfig(s.cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	cfg.QPS = -1
	return kubernetes.NewForConfig(cfg)
}

// httpClient has connections of its own, and adds the credentials that are not
// part of TLS.
func (s *apiServer) httpClient() (*http.Client, error) {
	tlsConfig, err := rest.TLSConfigFor(s.cfg)
	if err != nil {
		return nil, err
	}
	base := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 64}
	wrapped, err := rest.HTTPWrappersForConfig(s.cfg, base)
	return &http.Client{Transport: wrapped}, err
}

// processorTime is what all its processes have used.
func (s *apiServer) processorTime() time.Duration {
	var sum time.Duration
	for _, pid := range s.pids {
		sum += processorTime(pid)
	}
	return sum
}

// memory of all its processes, in bytes.
func (s *apiServer) memory() (rss, anonymous float64, err error) {
	for _, pid := range s.pids {
		p, err := measure(pid)
		if err != nil {
			return 0, 0, err
		}
		rss, anonymous = rss+p.RSS, anonymous+p.Anonymous
	}
	return rss, anonymous, nil
}

// startKernel starts Pintle on the data below dir, which is made or was left by
// a former start.
func startKernel(ctx context.Context, dir, retention string) (*apiServer, error) {
	return runKernel(ctx, "bench-store", dir, fmt.Sprintf(storeConfig, retention))
}

func runKernel(ctx context.Context, name, dir, text string) (*apiServer, error) {
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{SuperAdmin: true, Name: name, Config: config, Data: filepath.Join(dir, "d")})
	if err != nil {
		return nil, err
	}
	stopped := false
	stop := func(sig os.Signal) error {
		if stopped {
			return nil
		}
		stopped = true
		if sig == syscall.SIGKILL {
			c.Kill()
			return nil
		}
		return c.Stop(sig)
	}
	_, cfg, err := c.Client()
	var ready float64
	if err == nil {
		ready, err = readyAfter(c)
	}
	if err == nil {
		err = readyz(ctx, c)
	}
	if err != nil {
		return nil, errors.Join(err, stop(syscall.SIGTERM))
	}
	return &apiServer{
		name: "pintle", cfg: cfg, pids: []int{c.Pid()},
		ready: time.Duration(ready * float64(time.Millisecond)), stop: stop,
	}, nil
}

const benchToken = "bench-store-on-loopback"

// startUpstream starts etcd and kube-apiserver on the data below dir. Its
// settings are what makes it fastest: no audit, no webhooks, no priority and
// fairness, limits out of reach, a token (which costs a look-up, a client
// certificate a verification a request), etcd without TLS.
func startUpstream(ctx context.Context, dir string) (_ *apiServer, err error) {
	begin := time.Now()
	etcd, url, err := startEtcd(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, etcd.Stop(syscall.SIGTERM))
		}
	}()
	key, tokens := filepath.Join(dir, "sa.key"), filepath.Join(dir, "tokens.csv")
	if _, err := os.Stat(key); err != nil {
		if err := writeKey(key); err != nil {
			return nil, err
		}
		if err := os.WriteFile(tokens, []byte(benchToken+",admin,admin,system:masters\n"), 0o600); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	cfg := &rest.Config{Host: "https://127.0.0.1:" + ports[0], BearerToken: benchToken}
	cfg.Insecure = true // it makes its own certificate, for loopback
	s := &apiServer{name: "kube-apiserver", cfg: cfg, etcd: url}
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer asking.CloseIdleConnections()
	api, err := startProgram(ctx, "kube-apiserver", dir, func(ctx context.Context) error { return okAt(ctx, asking, cfg.Host+"/readyz") },
		"--etcd-servers", url, "--bind-address", "127.0.0.1", "--secure-port", ports[0], "--cert-dir", filepath.Join(dir, "pki"),
		"--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://bench.local", "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-cluster-ip-range", "10.96.0.0/24", "--endpoint-reconciler-type", "none",
		"--max-requests-inflight", "5000", "--max-mutating-requests-inflight", "5000", "--enable-priority-and-fairness=false",
		"--http2-max-streams-per-connection", "1000", "--profiling=false", "--v", "0")
	if err != nil {
		return nil, err
	}
	s.ready = time.Since(begin)
	s.pids = []int{api.Pid(), etcd.Pid()}
	s.stop = func(sig os.Signal) error { return errors.Join(api.Stop(sig), etcd.Stop(sig)) }
	return s, nil
}
