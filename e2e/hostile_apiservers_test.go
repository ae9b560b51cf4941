package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

// hostileAPIBinary is built once.
var hostileAPIBinary = sync.OnceValues(func() (string, error) {
	return buildTool("hostileapi", "./e2e/testdata/plugins/hostileapi", "")
})

// withHostileAPI is a configuration, and the plugin in it.
func withHostileAPI(t *testing.T, config string) string {
	t.Helper()
	program, err := hostileAPIBinary()
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	dir := filepath.Join(catalog, "hostileapi")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, filepath.Join(dir, "hostileapi")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest("hostileapi", "hostileapi", "apiserver")+`  groupVersions: [{group: hostile.example.com, version: v1}]
  rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
`)
	if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
		t.Fatalf("seal: %v\n%s", err, text)
	}
	base, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	text := strings.Replace(string(base), "  bundles:\n", fmt.Sprintf("  directories: [%s, %s]\n  bundles:\n  - {name: hostileapi, limits: {callsPerSecond: 20}}\n", own, catalog), 1) + "apiServers: {enabled: [hostileapi]}\n"
	return write(t, filepath.Join(catalog, "pintle.yaml"), text)
}

// peakMemory is the most that a process had in memory, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// TestHostileAPIServer: an API server of a plugin hangs, lies, floods and dies. What it
// serves is told as not available; the API's own documents and objects stay as they were,
// and when it is well again it is served again.
func TestHostileAPIServer(t *testing.T) {
	t.Parallel()
	e := minimal(t, withHostileAPI(t, "../configs/minimal.yaml"), "")
	const service, things = "v1.hostile.example.com", "/apis/hostile.example.com/v1/things/"
	web, err := rest.HTTPClientFor(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	shows := func(t *testing.T, words ...string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			r := e.try(t, "get", "apiservice", service, "-o", "jsonpath={.status.conditions[0].status} {.status.conditions[0].message}")
			for _, word := range words {
				if !strings.Contains(r.stdout+r.stderr, word) {
					return fmt.Errorf("%s%s, want %q", r.stdout, r.stderr, words)
				}
			}
			return nil
		})
	}
	get := func(ctx context.Context, path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.cfg.Host+path, nil)
		if err != nil {
			return nil, err
		}
		return web.Do(req)
	}
	// sound is what clients need of the kernel.
	sound := func(t *testing.T) {
		t.Helper()
		for path, word := range map[string]string{
			"/readyz": "ok", "/apis": `"apps"`, "/apis/apps/v1": "deployments", "/api/v1/namespaces": `"default"`,
			"/openapi/v2": "/apis/apps/v1/deployments", "/openapi/v3": "apis/apps/v1", "/openapi/v3/api/v1": "io.k8s.api.core.v1.Pod",
		} {
			res, err := get(bound(t), path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), word) || strings.Contains(string(body), "../../pods") {
				t.Errorf("%s: %s, %v: %.200s", path, res.Status, err, body)
			}
		}
	}
	shows(t, "True", "plugin hostileapi serves it")
	peak := peakMemory(t, e.Pid())

	t.Run("answers", func(t *testing.T) {
		for name, code := range map[string]int{"plain": http.StatusOK, "redirects": http.StatusBadGateway, "headers": http.StatusServiceUnavailable} {
			res, err := get(bound(t), things+name)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != code || res.Header.Get("Location") != "" {
				t.Errorf("%s: %s, %v", name, res.Status, res.Header)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if res, err := get(ctx, things+"hangs"); err == nil {
			res.Body.Close()
			t.Errorf("hangs: %s", res.Status)
		}
		res, err := get(bound(t), things+"large")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil || n != 100<<20 {
			t.Errorf("large: %d bytes, %v", n, err)
		}
		if res, err := get(bound(t), things+"stops"); err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err == nil {
				t.Error("an answer that stops in its midst ends as if it were whole")
			}
		}
		sound(t)
	})
	t.Run("floods", func(t *testing.T) {
		// It opens 2,000 watches at once; others are served meanwhile.
		ctx, ended := bound(t), make(chan error, 1)
		go func() {
			res, err := get(ctx, things+"floods")
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			ended <- err
		}()
		for flooding := true; flooding; {
			sound(t)
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
				flooding = false
			default:
			}
		}
		sound(t)
	})
	t.Run("upgrades", func(t *testing.T) {
		for _, protocol := range []string{"websocket", "SPDY/3.1"} {
			conn, in := e.upgraded(t, things+"echo", protocol)
			defer conn.Close()
			if who, err := in.ReadString('\n'); err != nil || who != "kubernetes-admin\n" {
				t.Fatalf("%s: it is asked by %q, %v", protocol, who, err)
			}
			fmt.Fprintln(conn, "hello")
			if echo, err := in.ReadString('\n'); err != nil || echo != "hello\n" {
				t.Errorf("%s: echo %q, %v", protocol, echo, err)
			}
		}
	})
	t.Run("dies", func(t *testing.T) {
		conn, in := e.upgraded(t, things+"echo", "websocket")
		defer conn.Close()
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if res, err := get(bound(t), things+"dies"); err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err == nil && res.StatusCode == http.StatusOK {
				t.Error("the answer of a process that dies ends as if it were whole")
			}
		}
		if _, err := in.ReadString('\n'); err == nil {
			t.Error("its connection goes on")
		}
		eventually(t, func(ctx context.Context) error {
			res, err := get(ctx, things+"plain")
			if err != nil {
				return err
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return errors.New(res.Status)
			}
			return nil
		})
		sound(t)
	})
	e.kubectl(t, "create", "configmap", "mode", "--from-literal=mode=good")
	for mode, why := range map[string]string{
		"hangs": "no answer within 5s", "large": "more than 1048576 bytes", "rubbish": "want an APIResourceList in JSON",
		"switches": "bad status from /apis/hostile.example.com/v1: 101",
	} {
		t.Run("documents: "+mode, func(t *testing.T) {
			e.kubectl(t, "patch", "configmap", "mode", "--type=merge", "-p", `{"data":{"mode":"`+mode+`"}}`)
			shows(t, "False", why)
			// Nobody waits for it.
			eventually(t, func(ctx context.Context) error {
				res, err := get(ctx, things+"hangs")
				if err != nil {
					return err
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "plugin hostileapi") {
					return fmt.Errorf("%s %s: %w", res.Status, body, err)
				}
				return nil
			})
			sound(t)
			e.kubectl(t, "patch", "configmap", "mode", "--type=merge", "-p", `{"data":{"mode":"good"}}`)
			shows(t, "True")
			sound(t)
		})
	}
	if grown := peakMemory(t, e.Pid()) - peak; grown > 400<<20 {
		t.Errorf("the kernel held %d MiB more than before", grown>>20)
	}
}

// TestAPIServerPluginOnTwoKernels: each kernel of an etcd serves by a process of its own
// what a plugin serves. One that does not have the plugin says so, and takes nothing from
// the others while it does not lead.
func TestAPIServerPluginOnTwoKernels(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)
	data, without := t.TempDir(), s.config
	s.config = withHostileAPI(t, without)
	const thing = "/apis/hostile.example.com/v1/things/plain"
	get := func(ctx context.Context, e *env) (string, error) {
		body, err := e.client.Discovery().RESTClient().Get().AbsPath(thing).Do(ctx).Raw()
		return string(body), err
	}
	served := func(e *env) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			if body, err := get(ctx, e); err != nil || !strings.Contains(body, `"name":"plain"`) {
				return fmt.Errorf("by %s: %s: %w", e.Name, body, err)
			}
			if r := e.try(t, "get", "apiservice", "v1.hostile.example.com", "--no-headers"); !strings.Contains(r.stdout, "plugin/hostileapi") || !strings.Contains(r.stdout, "True") {
				return fmt.Errorf("by %s: %s%s", e.Name, r.stdout, r.stderr)
			}
			return nil
		})
	}
	first := s.launch(t, "pluginapi1", filepath.Join(data, "1"), cluster.NodeIP, 0)
	firstRuns := true
	defer func() {
		if firstRuns {
			end(t, first)
		}
	}()
	served(first)
	second := s.launch(t, "pluginapi2", filepath.Join(data, "2"), secondIP, 0)
	defer end(t, second)
	served(second)
	served(first)

	// The kernel that led is killed; it comes back without the plugin.
	first.Kill()
	firstRuns = false
	served(second)
	eventually(t, func(ctx context.Context) error {
		if _, controllers, err := holders(ctx, second.client); err != nil || controllers == "" {
			return fmt.Errorf("nobody leads the controllers: %w", err)
		}
		return nil
	})
	s.config = without
	first = s.launch(t, "pluginapi1", filepath.Join(data, "1"), cluster.NodeIP, 0)
	firstRuns = true
	eventually(t, func(ctx context.Context) error {
		body, err := get(ctx, first)
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(body, "plugin hostileapi is not in use at this API server") {
			return fmt.Errorf("by the kernel without the plugin: %s: %w", body, err)
		}
		return nil
	})
	served(second)
}

// upgraded asks for a connection of another protocol.
func (e *env) upgraded(t *testing.T, path, protocol string) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	config, err := rest.TLSConfigFor(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(e.cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", u.Host, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Remote-User: eve\r\n\r\n", path, u.Host, protocol)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade to %s: %v, %v", protocol, res, err)
	}
	return conn, in
}
