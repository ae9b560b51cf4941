//go:build !wasip1

// Hostileapi is an API server plugin that misbehaves: in its documents as the ConfigMap
// default/mode says, and in answers to requests as the name of the object says.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/sdk/apiserver"
)

const (
	base      = "/apis/hostile.example.com/v1"
	discovery = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"hostile.example.com/v1","resources":[{"name":"things","singularName":"thing","namespaced":false,"kind":"Thing","verbs":["get"]}]}`
	hundred   = 100 << 20
)

type server struct{ client kubernetes.Interface }

func (s *server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if name, ok := strings.CutPrefix(req.URL.Path, base+"/things/"); ok {
		s.object(w, req, name)
		return
	}
	mode := ""
	if m, err := s.client.CoreV1().ConfigMaps("default").Get(req.Context(), "mode", metav1.GetOptions{}); err == nil {
		mode = m.Data["mode"]
	}
	w.Header().Set("Content-Type", "application/json")
	switch mode {
	case "hangs":
		<-req.Context().Done()
	case "large":
		spaces(w)
	case "rubbish":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":7,"resources":[null,{"name":"../../pods"}],"swagger":"2.0","paths":{"/api/v1/pods":{"get":null}},"definitions":{"io.k8s.api.core.v1.Pod":{"type":"string"}}}`)
	case "another":
		fmt.Fprint(w, strings.ReplaceAll(discovery, "hostile.example.com/v1", "apps/v1"))
	case "redirects":
		http.Redirect(w, req, "https://127.0.0.1:6443/api/v1/secrets", http.StatusTemporaryRedirect)
	case "switches":
		upgrade(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", nil)
	case "stops":
		upgrade(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", nil)
	default:
		if req.URL.Path != base {
			http.NotFound(w, req)
			return
		}
		fmt.Fprint(w, discovery)
	}
}

// object answers as its name says.
func (s *server) object(w http.ResponseWriter, req *http.Request, name string) {
	switch name {
	case "hangs":
		<-req.Context().Done()
	case "large":
		spaces(w)
	case "redirects":
		http.Redirect(w, req, "https://127.0.0.1:6443/api/v1/secrets", http.StatusTemporaryRedirect)
	case "headers":
		for i := range 100 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("h", 64<<10))
		}
	case "stops":
		upgrade(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", nil)
	case "dies":
		_ = http.NewResponseController(w).Flush()
		os.Exit(7)
	case "echo":
		user := ""
		if u, ok := apiserver.UserOf(req.Context()); ok {
			user = u.Name
		}
		upgrade(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+req.Header.Get("Upgrade")+"\r\n\r\n"+user+"\n", io.Copy)
	case "floods":
		s.flood(req.Context())
		fmt.Fprint(w, `{"kind":"Thing","apiVersion":"hostile.example.com/v1","metadata":{"name":"floods"}}`)
	default:
		fmt.Fprintf(w, `{"kind":"Thing","apiVersion":"hostile.example.com/v1","metadata":{"name":%q}}`, name)
	}
}

// flood opens 2,000 watches at once with the plugin's identity, and holds them for
// five seconds.
func (s *server) flood(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for range 2000 {
		group.Go(func() {
			w, err := s.client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return
			}
			<-ctx.Done()
			w.Stop()
		})
	}
	group.Wait()
}

func spaces(w http.ResponseWriter) {
	chunk := []byte(strings.Repeat(" ", 1<<20))
	for range hundred >> 20 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// upgrade takes the connection, says what is given, and goes on by then, or ends it.
func upgrade(w http.ResponseWriter, said string, then func(io.Writer, io.Reader) (int64, error)) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(buffered, said)
	if buffered.Flush() == nil && then != nil {
		_, _ = then(conn, buffered)
	}
}

func main() {
	apiserver.Serve(apiserver.Server{Name: "hostileapi", New: func(c *apiserver.Context) (apiserver.Instance, error) {
		return apiserver.Instance{Handler: &server{c.Client}}, nil
	}})
}
