package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

const fronted = webPods + `---
apiVersion: v1
kind: Pod
metadata: {name: plain, labels: {app: plain}}
spec: {containers: [{name: c, image: BOX, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: grpc, port: 90, targetPort: 9090, appProtocol: kubernetes.io/h2c}]}
---
apiVersion: v1
kind: Service
metadata: {name: plain}
spec: {selector: {app: plain}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {ports: [{port: 80, targetPort: PORT, appProtocol: kubernetes.io/ws}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: echo-1, labels: {kubernetes.io/service-name: echo}}
addressType: IPv4
ports: [{name: "", port: PORT}]
endpoints: [{addresses: [ADDRESS]}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: pintle
  tls: [{hosts: [shop.example.com], secretName: shop}]
  rules:
  - host: shop.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}
      - {path: /grpc.health.v1.Health, pathType: Prefix, backend: {service: {name: web, port: {name: grpc}}}}
      - {path: /echo, pathType: Exact, backend: {service: {name: echo, port: {number: 80}}}}
  - host: "*.apps.example.com"
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}
`

// echoes answers an upgrade and sends back what comes.
func (e *env) echoes(t *testing.T) (port string) {
	t.Helper()
	l, err := e.Network.Listen("tcp", cluster.NodeIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(c, rw)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	t.Cleanup(func() { server.Close(); <-done })
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// through is a client that reaches each host at the node's ports 80 and 443.
func (e *env) through(t *testing.T, roots *x509.CertPool) *http.Client {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return e.Network.Dial(ctx, network, net.JoinHostPort(cluster.NodeIP, port))
		},
		Protocols: new(http.Protocols),
	}
	tr.Protocols.SetHTTP1(true)
	tr.Protocols.SetHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func fetched(ctx context.Context, c *http.Client, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s %s", response.StatusCode, response.Proto, strings.TrimSpace(string(text))), err
}

func (e *env) atURL(t *testing.T, c *http.Client, url, want string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		got, err := fetched(ctx, c, url)
		if err == nil && !strings.HasPrefix(got, want) {
			err = fmt.Errorf("%s answers %q, want %q", url, got, want)
		}
		return err
	})
}

// TestIngress: the shipped plugin, started by its first Ingress: two hosts, TLS, an upgrade, gRPC,
// a rollout without a failed request, a certificate that changes, and an Ingress of another
// namespace that wants the same host (4-21.1, 4-21.9).
func TestIngress(t *testing.T) {
	t.Parallel()
	needContainers(t)
	dir := t.TempDir()
	e := private(t, cluster.Options{Name: "ingress", Config: "configs/standalone.yaml"})
	ns := e.namespace(t)
	certificate, key, authority := servingFiles(t, dir, "shop.example.com")
	e.kubectl(t, "-n", ns, "create", "secret", "tls", "shop", "--cert", certificate, "--key", key)
	e.apply(t, ns, strings.NewReplacer("BOX", box, "PORT", e.echoes(t), "ADDRESS", cluster.NodeIP).Replace(fronted))
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	e.awaitPod(t, ns, "plain", isReady)
	eventually(t, func(ctx context.Context) error {
		i, err := e.client.NetworkingV1().Ingresses(ns).Get(ctx, "shop", metav1.GetOptions{})
		if err == nil && (len(i.Status.LoadBalancer.Ingress) != 1 || i.Status.LoadBalancer.Ingress[0].IP != cluster.NodeIP) {
			err = fmt.Errorf("the Ingress has the addresses %v", i.Status.LoadBalancer.Ingress)
		}
		return err
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	c := e.through(t, roots)
	e.atURL(t, c, "http://shop.example.com/", "200 HTTP/1.1 web-")
	e.atURL(t, c, "https://shop.example.com/", "200 HTTP/2.0 web-")
	e.atURL(t, c, "http://one.apps.example.com/", "200 HTTP/1.1 plain ")
	e.atURL(t, c, "http://two.one.apps.example.com/", "404 ")
	e.atURL(t, c, "http://"+cluster.NodeIP+"/", "404 ")
	e.webSocket(t, roots)
	e.healthByGRPC(t, roots)
	e.rolls(t, c, ns)
	e.anotherWantsIt(t, c, ns)
	e.otherCertificate(t, ns, dir)
	for _, what := range []string{"secrets", "nodes"} { // it is the identity that is asked about
		if r := e.try(t, "auth", "can-i", "get", what, "-A", "--as=system:pintle:plugin:ingress"); strings.TrimSpace(r.stdout) != "yes" {
			t.Errorf("the ingress may not get %s: %+v", what, r)
		}
	}
	// The API refuses what the plugin has no right to.
	for _, what := range [][]string{{"list", "secrets"}, {"watch", "secrets"}, {"update", "ingresses"}, {"list", "pods"}, {"update", "ingressclasses"}} {
		if r := e.try(t, "auth", "can-i", what[0], what[1], "-A", "--as=system:pintle:plugin:ingress"); strings.TrimSpace(r.stdout) != "no" {
			t.Errorf("the ingress may %s %s: %+v", what[0], what[1], r)
		}
	}
}

// webSocket: bytes pass both ways of a web socket's connection.
func (e *env) webSocket(t *testing.T, roots *x509.CertPool) {
	t.Helper()
	raw, err := e.Network.Dial(bound(t), "tcp", cluster.NodeIP+":443")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(patience))
	c := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "shop.example.com", MinVersion: tls.VersionTLS12})
	fmt.Fprint(c, "GET /echo HTTP/1.1\r\nHost: shop.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	from := bufio.NewReader(c)
	response, err := http.ReadResponse(from, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", response, err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(c, line); err != nil {
			t.Fatal(err)
		}
		if got, err := from.ReadString('\n'); err != nil || got != line {
			t.Fatalf("%q comes back as %q, %v", line, got, err)
		}
	}
}

func (e *env) healthByGRPC(t *testing.T, roots *x509.CertPool) {
	t.Helper()
	e.healthAt(t, "shop.example.com", roots)
}

// healthAt asks for the health of a host by gRPC, without TLS where roots is nil.
func (e *env) healthAt(t *testing.T, host string, roots *x509.CertPool) {
	t.Helper()
	port, with := ":80", insecure.NewCredentials()
	if roots != nil {
		port, with = ":443", credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient("passthrough:///"+host+port, grpc.WithTransportCredentials(with),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return e.Network.Dial(ctx, "tcp", cluster.NodeIP+port)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := healthpb.NewHealthClient(conn).Check(bound(t), &healthpb.HealthCheckRequest{})
	if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("by gRPC: %v, %v", got, err)
	}
}

// rolls replaces the pods of the backend while clients ask.
func (e *env) rolls(t *testing.T, c *http.Client, ns string) {
	t.Helper()
	ctx, stop := context.WithCancel(bound(t))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	asked, pods := 0, map[string]bool{}
	for _, url := range []string{"http://shop.example.com/", "https://shop.example.com/"} {
		wg.Go(func() {
			for ctx.Err() == nil {
				got, err := fetched(ctx, c, url)
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				asked++
				if err != nil || !strings.HasPrefix(got, "200 ") {
					failed = append(failed, fmt.Sprintf("%s: %s %v", url, got, err))
				} else {
					pods[strings.Fields(got)[2]] = true
				}
				mu.Unlock()
			}
		})
	}
	e.kubectl(t, "-n", ns, "rollout", "restart", "deployment/web")
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	eventually(t, func(context.Context) error { // both new pods are asked
		mu.Lock()
		defer mu.Unlock()
		if len(pods) < 3 {
			return fmt.Errorf("%v answered", pods)
		}
		return nil
	})
	stop()
	wg.Wait()
	if len(failed) > 0 {
		t.Errorf("%d of %d requests failed while the backend rolled, first %s", len(failed), asked, failed[0])
	}
}

// backend is a pod, whose image is BOX, and its service at port 80, both of one name.
func backend(name string) string {
	return strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec: {containers: [{name: c, image: BOX, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80, targetPort: 8080}]}
---
`, "NAME", name)
}

// anotherWantsIt: an Ingress of another namespace takes neither the host nor a part of the
// wildcard, and is said so; what it has of its own is served (hostile).
func (e *env) anotherWantsIt(t *testing.T, c *http.Client, ns string) {
	t.Helper()
	other := ns + "-mallory"
	e.kubectl(t, "create", "namespace", other)
	t.Cleanup(func() { e.try(t, "delete", "namespace", other, "--wait=false") })
	e.awaitAccount(t, other)
	e.apply(t, other, strings.ReplaceAll(backend("evil")+`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: thief}
spec:
  ingressClassName: pintle
  tls: [{hosts: [shop.example.com], secretName: mine}]
  rules:
  - host: shop.example.com
    http: {paths: [{path: /, pathType: Exact, backend: {service: {name: evil, port: {number: 80}}}}]}
  - host: one.apps.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: evil, port: {number: 80}}}}]}
  - host: evil.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: evil, port: {number: 80}}}}]}
`, "BOX", box))
	e.failed(t, other, "thief", `Host "shop.example.com" is not served for this Ingress`)
	e.failed(t, other, "thief", `Host "one.apps.example.com" is not served for this Ingress`)
	e.atURL(t, c, "http://evil.example.com/", "200 HTTP/1.1 evil ")
	for url, want := range map[string]string{"https://shop.example.com/": "200 HTTP/2.0 web-", "http://one.apps.example.com/": "200 HTTP/1.1 plain "} {
		if got, err := fetched(bound(t), c, url); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s answers %q, %v", url, got, err)
		}
	}
}

// otherCertificate: a Secret that changes is in use without a restart.
func (e *env) otherCertificate(t *testing.T, ns, dir string) {
	t.Helper()
	certificate, key, authority := servingFiles(t, dir, "shop.example.com")
	e.kubectl(t, "-n", ns, "delete", "secret", "shop")
	e.kubectl(t, "-n", ns, "create", "secret", "tls", "shop", "--cert", certificate, "--key", key)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	before, _, err := e.pluginPid(bound(t), t, "ingress")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		got, err := fetched(ctx, e.through(t, roots), "https://shop.example.com/")
		if err == nil && !strings.HasPrefix(got, "200 ") {
			err = errors.New(got)
		}
		return err
	})
	if after, _, err := e.pluginPid(bound(t), t, "ingress"); err != nil || after != before {
		t.Errorf("the process %d was started again: %d, %v", before, after, err)
	}
}
