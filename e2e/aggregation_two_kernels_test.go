package e2e

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"pintle.dev/pintle/e2e/cluster"
)

// frontProxies follows the authorities of the front proxies, of which each kernel of a
// cluster has its own, as Kubernetes' library for API servers does.
func frontProxies(t *testing.T, e *env) *dynamiccertificates.ConfigMapCAController {
	t.Helper()
	front, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxies", "kube-system", "extension-apiserver-authentication", "requestheader-client-ca-file", e.client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		front.Run(ctx, 1)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return front
}

// aggregated serves one group version within a network, to the front proxies of a
// cluster alone, and answers with the user that they name. It returns its port and its
// authority.
func aggregated(t *testing.T, network *cluster.Network, front *dynamiccertificates.ConfigMapCAController, name string) (port string, caBundle string) {
	t.Helper()
	certFile, keyFile, authority := servingFiles(t, t.TempDir(), name)
	serving, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"/apis/two.example.com/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"two.example.com/v1","resources":[{"name":"callers","singularName":"caller","namespaced":false,"kind":"Caller","verbs":["get"]}]}`,
		"/apis/two.example.com":    `{"kind":"APIGroup","apiVersion":"v1","name":"two.example.com","versions":[{"groupVersion":"two.example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"two.example.com/v1","version":"v1"}}`,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answer, ok := answers[r.URL.Path]; ok {
			fmt.Fprint(w, answer)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/apis/two.example.com/v1/callers/") {
			fmt.Fprintf(w, `{"kind":"Caller","apiVersion":"two.example.com/v1","metadata":{"name":"me"},"user":%q}`, r.Header.Get("X-Remote-User"))
			return
		}
		http.NotFound(w, r)
	})
	l, err := network.Listen("tcp", net.JoinHostPort(cluster.NodeIP, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(tls.NewListener(l, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			known, ok := front.VerifyOptions()
			if !ok {
				return nil, errors.New("no authority of a front proxy is known yet")
			}
			return &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known.Roots}, nil
		}}))
	}()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, base64.StdEncoding.EncodeToString(authority)
}

// TestAggregationOnTwoKernels: an APIService that one kernel has from a client is served
// by both kernels of an etcd, to a server that follows both authorities of their front
// proxies. It is served while a kernel is away and after it came back, and goes at both.
func TestAggregationOnTwoKernels(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)
	data := t.TempDir()
	first := s.launch(t, "aggregation1", filepath.Join(data, "1"), cluster.NodeIP, 0)
	firstRuns := true
	defer func() {
		if firstRuns {
			end(t, first)
		}
	}()
	second := s.launch(t, "aggregation2", filepath.Join(data, "2"), secondIP, 0)
	defer end(t, second)

	ns := second.namespace(t)
	port, caBundle := aggregated(t, s.network, frontProxies(t, second), "two."+ns+".svc")
	second.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: two}
spec: {ports: [{name: api, port: 443, targetPort: %[1]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: two, labels: {kubernetes.io/service-name: two}}
addressType: IPv4
ports: [{name: api, port: %[1]s}]
endpoints: [{addresses: [%[2]s]}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.two.example.com}
spec: {group: two.example.com, version: v1, groupPriorityMinimum: 2000, versionPriority: 200, service: {namespace: %[3]s, name: two}, caBundle: %[4]s}
`, port, cluster.NodeIP, ns, caBundle))
	served := func(e *env) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			body, err := e.client.Discovery().RESTClient().Get().AbsPath("/apis/two.example.com/v1/callers/me").Do(ctx).Raw()
			if err != nil || !strings.Contains(string(body), `"user":"`) || strings.Contains(string(body), `"user":""`) {
				return fmt.Errorf("by %s: %s: %w", e.Name, body, err)
			}
			if groups, err := e.client.Discovery().ServerGroups(); err != nil || !strings.Contains(groups.String(), "two.example.com") {
				return fmt.Errorf("the groups of %s lack it: %w", e.Name, err)
			}
			if r := e.try(t, "get", "apiservice", "v1.two.example.com", "--no-headers"); r.err != nil || !strings.Contains(r.stdout, "True") {
				return fmt.Errorf("by %s: %s%s", e.Name, r.stdout, r.stderr)
			}
			return nil
		})
	}
	served(second)
	served(first)

	// A kernel is killed, and comes back.
	first.Kill()
	firstRuns = false
	served(second)
	first = s.launch(t, "aggregation1", filepath.Join(data, "1"), cluster.NodeIP, 0)
	firstRuns = true
	served(first)

	first.kubectl(t, "delete", "apiservice", "v1.two.example.com")
	for _, e := range []*env{first, second} {
		eventually(t, func(ctx context.Context) error {
			err := e.client.Discovery().RESTClient().Get().AbsPath("/apis/two.example.com/v1/callers/me").Do(ctx).Error()
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("by %s it is still there: %v", e.Name, err)
			}
			return nil
		})
	}
}
