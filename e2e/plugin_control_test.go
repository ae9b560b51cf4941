package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plugin runs pintle plugin against the cluster.
func (e *env) plugin(t *testing.T, args ...string) (result, int) {
	t.Helper()
	r := e.run(t, "", binary(t, "pintle"), append([]string{"plugin"}, args...)...)
	code := 0
	var exit *exec.ExitError
	if errors.As(r.err, &exit) {
		code = exit.ExitCode()
	} else if r.err != nil {
		t.Fatal(r.err)
	}
	return r, code
}

// A Plugin object is in force as soon as it is written, by kubectl or by pintle
// plugin, outlives a restart, and what the host cannot do is refused and changes
// nothing.
func TestPluginControl(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, "", data)
	e.placer(t)
	says := func(want, name, path string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			// It may be gone for a moment: deleted, and made again by the host.
			if r := e.try(t, "get", "plugin", name, "-o", "jsonpath="+path); r.stdout != want {
				return fmt.Errorf("plugin %s: %s is %q, want %q\n%s", name, path, r.stdout, want, r.stderr)
			}
			return nil
		})
	}
	ok := func(want string, args ...string) {
		t.Helper()
		if r, code := e.plugin(t, args...); code != 0 || !strings.Contains(r.stdout, want) {
			t.Fatalf("plugin %v: exit %d, want 0 and %q:\n%s%s", args, code, want, r.stdout, r.stderr)
		}
	}
	ask := func(name string) {
		t.Helper()
		e.apply(t, "default", fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  tolerations: [{operator: Exists}]\n"+
			"  containers: [{name: c, image: i, resources: {requests: {cpu: \"9\"}}}]\n", name))
	}

	ask("waits") // 9 CPUs on nodes of 4
	e.refused(t, "waits", "Insufficient cpu")
	ok("PodFitsResources disabled", "disable", "PodFitsResources")
	e.placed(t, "waits") // the parked pod comes back
	says("Disabled False", "PodFitsResources", "{.status.state} {.status.conditions[?(@.type==\"Ready\")].status}")
	ok("enabled in default-scheduler", "enable", "PodFitsResources")
	ask("again")
	e.refused(t, "again", "Insufficient cpu")

	ok("weight 7", "enable", "LeastRequestedPriority", "--weight", "7")
	e.kubectl(t, "patch", "plugin", "BalancedResourceAllocation", "--type=merge", "-p", `{"spec":{"enabled":true,"weight":3}}`)
	says("Ready", "BalancedResourceAllocation", "{.status.state}")
	ok("changed by an operator; configured: 1", "describe", "LeastRequestedPriority")

	// What cannot be is refused, by the API and by the command.
	for _, c := range []struct{ patch, want string }{
		{`{"spec":{"version":"9.9"}}`, `spec.version: Invalid value: "9.9": plugin bundle classic: version 9.9`},
		{`{"spec":{"profiles":["absent"]}}`, `spec.profiles[0]: Unsupported value: "absent": supported values: "default-scheduler"`},
		{`{"spec":{"transport":"pigeon"}}`, `spec.transport: Unsupported value: "pigeon"`},
		{`{"spec":{"kind":"priority"}}`, `spec.kind: Invalid value: "priority": plugin HostName is a predicate`},
	} {
		if r := e.try(t, "patch", "plugin", "HostName", "--type=merge", "-p", c.patch); r.err == nil || !strings.Contains(r.stderr, c.want) {
			t.Errorf("patch %s: %v, want %q:\n%s", c.patch, r.err, c.want, r.stderr)
		}
	}
	if r, code := e.plugin(t, "upgrade", "classic", "--version", "9.9"); code != 3 || !strings.Contains(r.stderr, "version 9.9") {
		t.Errorf("upgrade to a version that is not there: exit %d, want 3:\n%s", code, r.stderr)
	}
	if r, code := e.plugin(t, "rollback", "HostName"); code != 1 || !strings.Contains(r.stderr, "no former version") {
		t.Errorf("rollback of what never changed: exit %d:\n%s", code, r.stderr)
	}
	if r, code := e.plugin(t, "enable"); code != 2 {
		t.Errorf("enable without a name: exit %d, want 2:\n%s", code, r.stderr)
	}
	if r, code := e.plugin(t, "disable", "Absent"); code != 4 || !strings.Contains(r.stderr, "not found") {
		t.Errorf("a plugin that is not there: exit %d, want 4:\n%s", code, r.stderr)
	}

	// What starts but cannot run is told, and the present one goes on. A
	// transport is the bundle's: all of its plugins turn together.
	ok("HostName", "list", "-o", "wide")
	e.kubectl(t, "patch", "plugin", "HostName", "--type=merge", "-p", `{"spec":{"transport":"process"}}`)
	says("process", "PodFitsResources", "{.status.transport}")
	says("process", "PodFitsResources", "{.spec.transport}")
	ask("by-process")
	e.refused(t, "by-process", "Insufficient cpu")

	// The list is what kubectl shows.
	eventually(t, func(context.Context) error {
		r, code := e.plugin(t, "list")
		if want := e.kubectl(t, "get", "plugins"); code != 0 || r.stdout != want {
			return fmt.Errorf("plugin list, exit %d:\n%s\nkubectl get plugins:\n%s", code, r.stdout, want)
		}
		return nil
	})
	if r := e.run(t, "", binary(t, "pintle"), "__complete", "plugin", "enable", "Pod"); !strings.Contains(r.stdout, "PodFitsResources") {
		t.Errorf("completion offers %q, want PodFitsResources", r.stdout)
	}

	// The commands of the document do what it says.
	bin := filepath.Dir(binary(t, "pintle"))
	out := shell(t, e, bin, guideScript(t, "plugins"),
		"PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+e.Kubeconfig, "PINTLE_DATADIR="+data)
	contains(t, out, "BalancedResourceAllocation enabled, weight 2", "PodFitsHostPorts disabled", "changed by an operator")
	says("Ready wasm", "PodFitsHostPorts", "{.status.state} {.status.transport}")
	e.kubectl(t, "patch", "plugin", "HostName", "--type=merge", "-p", `{"spec":{"transport":"process"}}`)
	says("process", "PodFitsHostPorts", "{.status.transport}")

	// All of it outlives a restart.
	e.stop(t)
	e = minimal(t, "", data)
	says("7 true", "LeastRequestedPriority", "{.spec.weight} {.spec.enabled}")
	says("Ready", "BalancedResourceAllocation", "{.status.state}")
	says("process", "HostName", "{.status.transport}")
	// An object that is deleted is as configured again.
	e.kubectl(t, "delete", "plugin", "LeastRequestedPriority")
	says("1 wasm", "LeastRequestedPriority", "{.spec.weight} {.status.transport}")
	says("wasm", "HostName", "{.status.transport}")
}
