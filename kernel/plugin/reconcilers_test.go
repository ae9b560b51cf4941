package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// identity puts the socket to where a process sees it.
func (a *fakeAPI) identity(_ context.Context, _ string, access Access) (string, error) {
	if access.Directory == "" {
		return a.socket, nil
	}
	path := filepath.Join(access.Directory, "api")
	if err := os.Link(a.socket, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, os.Lchown(path, access.UID, access.GID)
}

// fakeAPI serves namespaces and takes ConfigMaps over a unix socket.
type fakeAPI struct {
	socket string

	mu         sync.Mutex
	namespaces []string
	greetings  map[string]string // namespace → text
	more       chan struct{}     // closed when there is another namespace
}

func newFakeAPI(t *testing.T, namespaces ...string) *fakeAPI {
	t.Helper()
	dir, err := os.MkdirTemp("", "pintle")
	if err != nil {
		t.Fatal(err)
	}
	a := &fakeAPI{socket: filepath.Join(dir, "api"), namespaces: namespaces, greetings: map[string]string{}, more: make(chan struct{})}
	l, err := net.Listen("unix", a.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &http.Server{Handler: a, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		s.Close()
		<-done
		os.RemoveAll(dir)
	})
	return a
}

// namespaceAt is a namespace whose version is its place among the namespaces.
func namespaceAt(version int, name string) map[string]any {
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"name": name, "uid": "u-" + name, "resourceVersion": strconv.Itoa(version)}}
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, o any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(o)
	}
	refuse := func(code int, reason string) {
		answer(code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": strings.ToLower(reason)})
	}
	name, isNamespace := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	name, isGreeting := strings.CutSuffix(name, "/configmaps")
	switch {
	case r.URL.Path == "/api/v1":
		answer(200, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": []any{
			map[string]any{"name": "namespaces", "kind": "Namespace", "verbs": []string{"list"}},
		}})
	case r.URL.Query().Get("sendInitialEvents") != "":
		refuse(422, "Invalid") // so that clients list
	case r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		if r.URL.Path != "/api/v1/namespaces" {
			<-r.Context().Done()
			return
		}
		seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		for {
			a.mu.Lock()
			news, more := a.namespaces[seen:], a.more
			a.mu.Unlock()
			for _, name := range news {
				seen++
				json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": namespaceAt(seen, name)})
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-more:
			}
		}
	case r.URL.Path == "/api/v1/namespaces" || r.URL.Path == "/api/v1/configmaps":
		items := []any{}
		a.mu.Lock()
		for i, n := range a.namespaces {
			if r.URL.Path == "/api/v1/namespaces" {
				items = append(items, namespaceAt(i+1, n))
			}
		}
		version := strconv.Itoa(len(a.namespaces))
		a.mu.Unlock()
		answer(200, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"resourceVersion": version}, "items": items})
	case isGreeting && r.Method == http.MethodPost:
		var o struct{ Data map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			refuse(400, "BadRequest")
			return
		}
		a.mu.Lock()
		_, there := a.greetings[name]
		a.greetings[name] = o.Data["text"]
		a.mu.Unlock()
		if there {
			refuse(409, "AlreadyExists")
			return
		}
		answer(201, map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "greeting"}})
	case isNamespace:
		a.mu.Lock()
		there := slices.Contains(a.namespaces, name)
		a.mu.Unlock()
		if !there {
			refuse(404, "NotFound")
			return
		}
		answer(200, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": name, "uid": "u-" + name}})
	default:
		refuse(404, "NotFound")
	}
}

func (a *fakeAPI) add(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.namespaces = append(a.namespaces, name)
	close(a.more)
	a.more = make(chan struct{})
}

func (a *fakeAPI) greeting(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.greetings[name]
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// greeterHost runs the bundle greeter over a fake API.
func greeterHost(t *testing.T, transport string, api *fakeAPI) *Host {
	h, _ := configuredGreeter(t, transport, api)
	return h
}

func configuredGreeter(t *testing.T, transport string, api *fakeAPI) (*Host, Config) {
	cfg := testConfig(t, manifest.TransportWASM)
	cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: transport, Config: json.RawMessage(`{"greeter":{"text":"welcome"}}`)}}
	cfg.Profiles, cfg.Controllers = nil, []string{"greeter"}
	return runHostWith(t, cfg, nil, Deps{Identity: api.identity}), cfg
}

func greeter(h *Host) v1alpha1.PluginStatus {
	for _, p := range h.Plugins() {
		if p.Name == "greeter" {
			return p.Status
		}
	}
	return v1alpha1.PluginStatus{}
}

// The same source reconciles as a module, through host functions, and as a process.
func TestReconcilers(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			api := newFakeAPI(t, "one", "fails", "again", "panics", "two")
			h, cfg := configuredGreeter(t, transport, api)
			for _, name := range []string{"one", "two", "again"} {
				eventually(t, "greeting in "+name, func() bool { return api.greeting(name) == "welcome, "+name })
			}
			api.add("three")
			eventually(t, "greeting in a new namespace", func() bool { return api.greeting("three") == "welcome, three" })
			eventually(t, "state Ready", func() bool { return greeter(h).State == v1alpha1.PluginStateReady })
			if s := greeter(h); s.Restarts != 0 {
				t.Errorf("status %+v, want no restart: errors and panics concern their key alone", s)
			}
			if api.greeting("fails") != "" || api.greeting("panics") != "" {
				t.Error("namespaces that fail were greeted")
			}
			// A changed configuration reaches it without another guest; what it refuses
			// leaves the former one in force.
			for _, c := range []struct{ config, refusal, namespace, greeting string }{
				{`{"greeter":{"text":"ahoy"}}`, "", "four", "ahoy, four"},
				{`{"greeter":{"text":7}}`, "cannot unmarshal number", "five", "ahoy, five"},
				{`{"greeter":{"text":"hello","loud":true}}`, "nobody shouts", "six", "ahoy, six"}, // it has kept the text by then
				{`{"greeter":{"text":"hello"}}`, "", "seven", "hello, seven"},
			} {
				cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: transport, Config: json.RawMessage(c.config)}}
				err := h.Reconfigure(cfg)
				if (err != nil) != (c.refusal != "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
					t.Fatalf("%s: %v; want %q", c.config, err, c.refusal)
				}
				eventually(t, "state Ready after "+c.config, func() bool { return greeter(h).State == v1alpha1.PluginStateReady })
				api.add(c.namespace)
				eventually(t, c.greeting, func() bool { return api.greeting(c.namespace) == c.greeting })
			}
			if s := greeter(h); s.Restarts != 0 {
				t.Errorf("status %+v, want no restart for a configuration", s)
			}
		})
	}
}

// A reconciliation without end costs its controller the instance, nobody else anything.
func TestReconcilerLoops(t *testing.T) {
	api := newFakeAPI(t, "one")
	h := greeterHost(t, manifest.TransportWASM, api)
	eventually(t, "first greeting", func() bool { return api.greeting("one") != "" })
	api.add("loops")
	eventually(t, "restart", func() bool { return greeter(h).Restarts > 0 })
	api.add("three")
	eventually(t, "greeting after the restart", func() bool { return api.greeting("three") != "" })
	eventually(t, "word of it in the status", func() bool {
		s := greeter(h)
		return s.State == v1alpha1.PluginStateReady && strings.Contains(s.Message, "after loops: ") && strings.Contains(s.Message, "no answer in time")
	})
}

// A module gets the host functions that its manifest names and no others.
func TestHostFunctionsAreGranted(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "greeter"), os.DirFS(filepath.Join(catalog, "greeter"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "greeter", manifest.File)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "hostFunctions: [get, create]", "hostFunctions: [get]", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, manifest.TransportWASM)
	cfg.Directories, cfg.Bundles, cfg.Profiles, cfg.Controllers = []string{dir}, []BundleConfig{{Name: "greeter"}}, nil, []string{"greeter"}
	h, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	want := "module imports the host function create; name it in hostFunctions of the manifest"
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("run: %v; want %q", err, want)
	}
}
