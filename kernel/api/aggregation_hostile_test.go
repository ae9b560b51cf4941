package api_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"pintle.dev/pintle/kernel/api"
)

// transportTo is a client of the server over TLS, with a token where there is one.
func transportTo(t *testing.T, s *api.Server, token string) (*http.Client, string) {
	t.Helper()
	cfg := admitted(t, s)
	if token != "" {
		cfg = rest.AnonymousClientConfig(cfg)
		cfg.BearerToken = token
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, cfg.Host
}

// What a client says of itself does not reach another server, and what it authenticates
// with does not either.
func TestAggregatedServerGetsNoCredentials(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	e := newExtension(t, "cred.example")
	e.register(t, s, nil)
	e.await(t, s)
	client := overTLS(t, s)
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "visitor"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "visitor", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web, host := transportTo(t, s, token.Status.Token)
	ask := func() *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+e.path()+"/fishes/trout?x=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"X-Remote-User": "system:admin", "X-Remote-Group": user.SystemPrivilegedGroup, "X-Remote-Uid": "0",
			"X-Remote-Extra-Scopes": "all", "x-remote-extra-more": "all",
		} {
			req.Header.Set(name, value)
		}
		res, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	// Without a right to it the request does not leave the kernel.
	before := e.last(e.path() + "/fishes/trout")
	if res := ask(); res.StatusCode != http.StatusForbidden {
		t.Fatalf("without rights: %s", res.Status)
	}
	if e.last(e.path()+"/fishes/trout") != before {
		t.Fatal("a request without a right was sent on")
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fishing"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{e.group}, Resources: []string{"fishes"}, Verbs: []string{"get"}}}}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "fishing"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fishing"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "visitor"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the right is in force", func() bool { return ask().StatusCode == http.StatusOK })
	got := e.last(e.path() + "/fishes/trout").Header
	if names := got["X-Remote-User"]; !slices.Equal(names, []string{"system:serviceaccount:default:visitor"}) {
		t.Errorf("user %v", names)
	}
	if slices.Contains(got["X-Remote-Group"], user.SystemPrivilegedGroup) {
		t.Errorf("groups %v", got["X-Remote-Group"])
	}
	for name, values := range got {
		if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") || slices.ContainsFunc(values, func(v string) bool { return v == "all" || v == "0" || strings.Contains(v, token.Status.Token) }) {
			t.Errorf("header %s: %v", name, values)
		}
	}
	// An administrator in another's place is that other one there, too.
	as := admitted(t, s)
	as.Impersonate = rest.ImpersonationConfig{UserName: "ann", Groups: []string{"fishers"}}
	_, err = kubernetes.NewForConfigOrDie(as).RESTClient().Get().AbsPath(e.path() + "/fishes/trout").DoRaw(ctx)
	if !apierrors.IsForbidden(err) {
		t.Errorf("ann: %v", err)
	}
}

// The kernel's own API does not suffer under what others answer.
func TestHostileAggregatedServers(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	ctx := t.Context()
	web, host := transportTo(t, s, "")
	get := func(t *testing.T, path string) (int, string, http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json")
		res, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(data), res.Header
	}
	disco := discovery.NewDiscoveryClientForConfigOrDie(admitted(t, s))
	// sound is what every client needs of the kernel.
	sound := func(t *testing.T) {
		t.Helper()
		groups, lists, _ := disco.ServerGroupsAndResources()
		if len(groups) < 15 || !slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "apps/v1" }) {
			t.Errorf("discovery has %d groups", len(groups))
		}
		for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1", "/apis", "/api/v1/namespaces"} {
			if code, body, _ := get(t, path); code != http.StatusOK || !json.Valid([]byte(body)) {
				t.Errorf("%s: %d %.200s", path, code, body)
			}
		}
		if code, body, _ := get(t, "/openapi/v2"); code == http.StatusOK && !strings.Contains(body, "/apis/apps/v1/deployments") {
			t.Errorf("/openapi/v2 of %d bytes has no Deployments", len(body))
		}
	}

	t.Run("redirect", func(t *testing.T) {
		e := newExtension(t, "redirect.example")
		e.register(t, s, nil)
		e.await(t, s)
		e.respondBelow(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "https://elsewhere.example/?steal", http.StatusTemporaryRedirect)
		})
		code, body, header := get(t, e.path()+"/fishes/trout")
		if code != http.StatusBadGateway || header.Get("Location") != "" || strings.Contains(body, "elsewhere") {
			t.Errorf("%d %v %s", code, header, body)
		}
		sound(t)
	})
	t.Run("loop", func(t *testing.T) {
		// The kernel is the other server.
		u, err := url.Parse(host)
		if err != nil {
			t.Fatal(err)
		}
		e := newExtension(t, "loop.example")
		e.register(t, s, func(o *apiregistrationv1.APIService) {
			port, err := net.LookupPort("tcp", u.Port())
			if err != nil {
				t.Fatal(err)
			}
			*o.Spec.Service.Port = int32(port)
		})
		until(t, "the loop is told", func() bool { return condition(t, s, "v1.loop.example").Reason == "FailedDiscoveryCheck" })
		until(t, "the loop is told to clients", func() bool {
			code, body, _ := get(t, e.path()+"/fishes")
			return code == http.StatusServiceUnavailable && strings.Contains(body, "APIService v1.loop.example: FailedDiscoveryCheck")
		})
		sound(t)
	})
	t.Run("away", func(t *testing.T) {
		for name, o := range map[string]struct {
			reason string
			change func(*apiregistrationv1.APIService)
		}{
			"nobody": {"FailedDiscoveryCheck", func(o *apiregistrationv1.APIService) { *o.Spec.Service.Port = 1 }},
			"none":   {"ServiceNotFound", func(o *apiregistrationv1.APIService) { o.Spec.Service.Name = "missing" }},
			"self":   {"ServicePortError", func(o *apiregistrationv1.APIService) { o.Spec.Service.Name = "kubernetes"; *o.Spec.Service.Port = 1 }},
			"other":  {"FailedDiscoveryCheck", func(o *apiregistrationv1.APIService) { o.Spec.InsecureSkipTLSVerify = false }},
		} {
			e := newExtension(t, name+".away.example")
			e.register(t, s, o.change)
			until(t, name+" has "+o.reason, func() bool { return condition(t, s, "v1."+e.group).Reason == o.reason })
			until(t, name+" is told to clients", func() bool {
				code, body, _ := get(t, e.path()+"/fishes")
				return code == http.StatusServiceUnavailable && strings.Contains(body, o.reason)
			})
		}
		sound(t)
	})
	t.Run("rubbish", func(t *testing.T) {
		answers := []string{
			"", "null", "[]", "{}", "\x00\x01", strings.Repeat("[", 20000), `{"swagger":"2.0","paths":{"/apis/x/v1":null}}`,
			`{"swagger":"2.0","paths":null,"definitions":{"a":null,"io.k8s.api.core.v1.Pod":{"type":"string"}}}`,
			`{"paths":{"apis/rubbish5.example/v1":{"serverRelativeURL":"http://[::1"},"":{}}}`,
			`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"a/b/c"},{"name":""},{"name":"/"}]}`,
			`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[{"resource":"thieves"}]},{}]},{}]}`,
			`{"swagger":"2.0","info":{},"paths":{"/apis/rubbish.example/v1/":{"get":{"parameters":[null,{"$ref":"#/parameters/none"}],"responses":{"200":{"schema":{"$ref":"#/definitions/none"}}}}}},"definitions":{"b":{"$ref":"#/definitions/b"}}}`,
		}
		var all []*extension
		for i, answer := range answers {
			e := newExtension(t, fmt.Sprintf("rubbish%d.example", i))
			e.respond(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(req.Header.Get("Accept"), "g=apidiscovery.k8s.io") {
					w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
				}
				_, _ = io.WriteString(w, answer)
			})
			e.register(t, s, nil)
			all = append(all, e)
		}
		for _, e := range all {
			until(t, "documents of "+e.group+" were read", func() bool {
				return e.last("/openapi/v2") != nil && e.last("/openapi/v3") != nil && e.last("/apis") != nil
			})
		}
		sound(t)
		if _, lists, _ := disco.ServerGroupsAndResources(); slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
			return slices.ContainsFunc(l.APIResources, func(r metav1.APIResource) bool { return r.Name == "thieves" })
		}) {
			t.Error("a resource of apps/v1 is another server's")
		}
	})
	t.Run("large", func(t *testing.T) {
		e := newExtension(t, "large.example")
		var sent atomic.Int64 // of the largest answer: documents are asked for again and again
		e.respondBelow(func(w http.ResponseWriter, req *http.Request) {
			chunk := []byte(strings.Repeat(" ", 1<<20))
			mine := 0
			for range 100 {
				n, err := w.Write(chunk)
				mine += n
				for most := sent.Load(); int64(mine) > most && !sent.CompareAndSwap(most, int64(mine)); most = sent.Load() {
				}
				if err != nil {
					return
				}
			}
		})
		e.register(t, s, nil)
		until(t, "its documents were asked for", func() bool {
			return e.last("/openapi/v2") != nil && e.last("/openapi/v3") != nil && e.last("/apis") != nil
		})
		sound(t)
		if n := sent.Load(); n > 60<<20 {
			t.Errorf("%d MiB of a document were read", n>>20)
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		e := newExtension(t, "upgrade.example")
		e.register(t, s, nil)
		e.await(t, s)
		e.respondBelow(func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("Upgrade") != "echo" {
				http.Error(w, "no upgrade", http.StatusBadRequest)
				return
			}
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprintf(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n%s\n", req.Header.Get("X-Remote-User"))
			buf.Flush()
			_, _ = io.Copy(conn, buf)
		})
		cfg := admitted(t, s)
		tlsConfig, err := rest.TLSConfigFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(host)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", u.Host, tlsConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		fmt.Fprintf(conn, "GET %s/fishes/trout/talk HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Remote-User: eve\r\n\r\n", e.path(), u.Host)
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", res, err)
		}
		if who, err := in.ReadString('\n'); err != nil || who != "kubernetes-admin\n" {
			t.Errorf("user %q, %v", who, err)
		}
		fmt.Fprintln(conn, "hello")
		if echo, err := in.ReadString('\n'); err != nil || echo != "hello\n" {
			t.Errorf("echo %q, %v", echo, err)
		}
	})
	t.Run("hang", func(t *testing.T) {
		e := newExtension(t, "hang.example")
		e.register(t, s, nil)
		e.await(t, s)
		left := make(chan struct{})
		leave := sync.OnceFunc(func() { close(left) }) // discovery comes here, too
		e.respondBelow(func(_ http.ResponseWriter, req *http.Request) {
			<-req.Context().Done()
			leave()
		})
		// The wait is the client's: when it goes, so does the request to the other server.
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(short, http.MethodGet, host+e.path()+"/fishes/trout", nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := web.Do(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", res, err)
		}
		select {
		case <-left:
		case <-time.After(2 * time.Minute):
			t.Error("the request to the other server goes on")
		}
		sound(t)
	})
}

// Very many APIServices that nobody serves hold nobody else up.
func TestManyAPIServices(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, c := t.Context(), registrations(t, s)
	const many = 500
	port := int32(443)
	for i := range many {
		group := fmt.Sprintf("g%d.many.example", i)
		if _, err := c.Create(ctx, &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group}, Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "missing", Port: &port}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e := newExtension(t, "served.example")
	e.register(t, s, nil)
	e.await(t, s)
	until(t, "all are looked at", func() bool {
		list, err := c.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, o := range list.Items {
			if len(o.Status.Conditions) > 0 && o.Status.Conditions[0].Reason == "ServiceNotFound" {
				n++
			}
		}
		return n == many
	})
	groups, err := discovery.NewDiscoveryClientForConfigOrDie(s.ClientConfig(admin)).ServerGroups()
	if err != nil || len(groups.Groups) < many {
		t.Fatalf("%d groups, %v", len(groups.Groups), err)
	}
	// The first ones are the kernel's, in their order, after the one without a name.
	if groups.Groups[1].Name != apiregistrationv1.GroupName || groups.Groups[2].Name != "apps" {
		t.Errorf("the first groups are %s and %s", groups.Groups[1].Name, groups.Groups[2].Name)
	}
	if err := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).RESTClient().Delete().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	until(t, "the kernel's own groups are left", func() bool {
		groups, err := discovery.NewDiscoveryClientForConfigOrDie(s.ClientConfig(admin)).ServerGroups()
		return err == nil && len(groups.Groups) > 15 && !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return strings.HasSuffix(g.Name, ".example") })
	})
}

// A stop waits neither for watches of other servers nor for one that hangs.
func TestStopWithAggregatedRequests(t *testing.T) {
	e := newExtension(t, "slow.example")
	ended := make(chan string, 2)
	var stopping time.Time
	t.Run("running", func(t *testing.T) {
		s := start(t, t.TempDir())
		e.register(t, s, nil)
		e.await(t, s)
		begun := make(chan struct{}, 2)
		e.respondBelow(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Query().Get("watch") != "" {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
			}
			if strings.HasSuffix(req.URL.Path, "/fishes") {
				begun <- struct{}{}
			}
			<-req.Context().Done()
		})
		web, host := transportTo(t, s, "")
		for _, query := range []string{"?watch=true", ""} {
			go func() {
				res, err := web.Get(host + e.path() + "/fishes" + query)
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				ended <- query
			}()
		}
		for range 2 {
			<-begun
		}
		stopping = time.Now()
	})
	// A request may take a minute, which the stop took, too.
	if took := time.Since(stopping); took > 45*time.Second {
		t.Errorf("the stop took %s", took)
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Fatal("a request goes on after the server has stopped")
		}
	}
}
