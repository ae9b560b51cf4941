package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestCloudPlugin: the template of a cloud provider, as its author has it, in a kernel that
// has a provider already.
func TestCloudPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	author(t, dir, "plugin", "init", "cloud", "metal")
	contains(t, author(t, dir, "plugin", "test", "metal"), "cloud providers")
	author(t, dir, "plugin", "package", "metal", "-f", "metal.tar.gz")
	data := filepath.Join(dir, "data")
	config := write(t, filepath.Join(dir, "bare.yaml"), read(t, bareConfig(t))+"cloud: {provider: local}\n")
	e := minimal(t, config, data)
	const ns = "work"
	e.kubectl(t, "create", "namespace", ns)
	in, refused := e.within(t, ns)
	balancer := func(name, more string) {
		t.Helper()
		e.apply(t, ns, "{apiVersion: v1, kind: Service, metadata: {name: "+name+"}, spec: {type: LoadBalancer, "+more+"ports: [{port: 80}]}}")
	}
	says := func(want, path string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if r := e.try(t, "get", "plugin", "metal", "-o", "jsonpath="+path); !strings.Contains(r.stdout, want) {
				return fmt.Errorf("plugin metal: %s is %q, want %q\n%s", path, r.stdout, want, r.stderr)
			}
			return nil
		})
	}
	enable := func(name string, on bool) []string {
		return []string{"patch", "plugin", name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"enabled":%t}}`, on)}
	}
	r, code := e.plugin(t, "install", filepath.Join(dir, "metal.tar.gz"), "--data", data, "--signatures", "off")
	if code != 3 || !strings.Contains(r.stderr, "rules of cloud metal: patch: services/status") {
		t.Fatalf("install without a yes: exit %d\n%s", code, r.stderr)
	}
	if r, code := e.plugin(t, "install", filepath.Join(dir, "metal.tar.gz"), "--data", data, "--signatures", "off", "--yes"); code != 0 {
		t.Fatalf("install: exit %d\n%s", code, r.stderr)
	}
	says("Disabled", "{.status.state}")
	balancer("first", "")
	if ip := e.balancer(t, ns, "first"); ip != "10.97.0.1" {
		t.Errorf("local gives %s", ip)
	}

	// Two providers would both answer for it.
	refused("cloud providers local and metal are enabled, and each would answer for every service and node; disable all but one", enable("metal", true)...)
	if ip := e.balancer(t, ns, "first"); ip != "10.97.0.1" {
		t.Errorf("it has %s by now", ip)
	}
	in(enable("local", false)...)
	in("wait", "plugin/local", "--for=jsonpath={.status.state}=Disabled", "--timeout=110s")
	in(enable("metal", true)...)
	says("Ready", "{.status.state}")
	eventually(t, func(context.Context) error {
		if ip := e.balancer(t, ns, "first"); ip != "198.51.100.1" {
			return fmt.Errorf("metal gives %s", ip)
		}
		return nil
	})
	balancer("second", "")
	if ip := e.balancer(t, ns, "second"); ip != "198.51.100.2" {
		t.Errorf("metal gives %s", ip)
	}
	balancer("third", "")
	e.failed(t, ns, "third", "Error syncing load balancer: failed to ensure load balancer: no address is free")
	contains(t, in("get", "service", "first", "-o", "yaml"), "service.kubernetes.io/load-balancer-cleanup")

	pid, err := strconv.Atoi(in("get", "plugin", "metal", "-o", "jsonpath={.status.pid}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		if out := in("get", "plugin", "metal", "-o", "jsonpath={.status.pid}"); out == strconv.Itoa(pid) || out == "" {
			return errors.New("it is not started again")
		}
		return nil
	})
	in("delete", "service", "first", "--timeout=110s") // its finalizer goes with the load balancer
	eventually(t, func(context.Context) error {
		if ip := e.balancer(t, ns, "third"); ip != "198.51.100.1" {
			return fmt.Errorf("third has %s", ip)
		}
		return nil
	})
	if ip := e.balancer(t, ns, "second"); ip != "198.51.100.2" {
		t.Errorf("second has %s", ip)
	}

	// A provider that may not write has its event and its message; nothing else suffers.
	in("patch", "plugin", "metal", "--type=merge", "-p", `{"spec":{"permissions":[{"apiGroups":[""],"resources":["services","nodes"],"verbs":["get","list","watch"]},{"apiGroups":["","events.k8s.io"],"resources":["events"],"verbs":["create","update","patch"]}]}}`)
	balancer("fourth", "")
	says("was forbidden to patch services/status", "{.status.message}")
	in(enable("metal", false)...)
	says("Disabled", "{.status.state}")
}
