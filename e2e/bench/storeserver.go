package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

const (
	programStart = 60 * time.Second
	programStop  = 20 * time.Second
)

// program is a server that was started and is asked until it answers.
type program struct {
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// startProgram starts a built program and returns when ready is nil. What it
// prints is in a file beside its data.
func startProgram(ctx context.Context, name, dir string, ready func(context.Context) error, args ...string) (*program, error) {
	bin, err := cluster.Bin()
	if err != nil {
		return nil, err
	}
	p := &program{name: name, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(filepath.Join(bin, name), args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w; make bench-store builds it", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, programStart)
	defer cancel()
	for {
		ask, cancelAsk := context.WithTimeout(ctx, 2*time.Second)
		err := ready(ask)
		cancelAsk()
		select {
		case <-p.exited: // another program may have answered on its port
			return nil, fmt.Errorf("start %s: it ended\n%s", name, p.tail())
		default:
		}
		if err == nil {
			return p, nil
		}
		select {
		case <-ctx.Done():
			_ = p.stop(syscall.SIGKILL)
			return nil, fmt.Errorf("start %s: %w: %w\n%s", name, ctx.Err(), err, p.tail())
		case <-time.After(10 * time.Millisecond):
		case <-p.exited:
		}
	}
}

func (p *program) tail() string {
	raw, _ := os.ReadFile(p.log)
	return string(raw[max(0, len(raw)-2000):])
}

// stop ends the program, by force where a signal is not enough. Stopping it
// again does nothing.
func (p *program) stop(sig os.Signal) error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.exited:
		return nil
	case <-time.After(programStop):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s did not stop within %s", p.name, programStop)
	}
}

// freePorts are ports of loopback that the system gave.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

// startEtcd starts one member of etcd with its data in dir, as a server in use:
// every write is synced. Clients reach it without TLS.
func startEtcd(ctx context.Context, dir string) (p *program, url string, err error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, "", err
	}
	url, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	p, err = startProgram(ctx, "etcd", dir, func(ctx context.Context) error { return okAt(ctx, http.DefaultClient, url+"/health") },
		"--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--quota-backend-bytes", strconv.Itoa(8<<30), "--log-level", "error")
	return p, url, err
}

func okAt(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

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
		rss, anonymous = rss+p.rss, anonymous+p.anonymous
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
			err = errors.Join(err, etcd.stop(syscall.SIGTERM))
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
	s.pids = []int{api.cmd.Process.Pid, etcd.cmd.Process.Pid}
	s.stop = func(sig os.Signal) error { return errors.Join(api.stop(sig), etcd.stop(sig)) }
	return s, nil
}

// writeKey makes the key that tokens of service accounts are signed with.
func writeKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
