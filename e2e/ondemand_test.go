package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pintle.dev/pintle/e2e/cluster"
)

// TestIngressOnDemand: the shipped configuration runs no ingress and holds no port until an
// Ingress asks for it. One of another class does not. A port that another program has is told by
// an event, and the cluster goes on. Then kubectl create ingress is all that it takes. After
// a restart it runs without a new one, and who took it out by its Plugin object keeps it out.
func TestIngressOnDemand(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "ondemand", Config: "configs/standalone.yaml"})
	e := start()
	e.awaitAccount(t, "default")
	says := func(plugin, want string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if r := e.try(t, "get", "plugin", plugin, "-o", "jsonpath={.spec.enabled} {.status.state}: {.status.message}"); !strings.HasPrefix(r.stdout, want) {
				return fmt.Errorf("plugin %s is %q, want %q %s", plugin, r.stdout, want, r.stderr)
			}
			return nil
		})
	}
	rights := func(want string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if r := e.try(t, "auth", "can-i", "get", "secrets", "-A", "--as=system:pintle:plugin:ingress"); strings.TrimSpace(r.stdout) != want {
				return fmt.Errorf("the ingress may read Secrets: %s, want %s %s", r.stdout, want, r.stderr)
			}
			return nil
		})
	}
	const waits = "true Idle: it starts with the first object that asks for it"
	says("ingress", waits)
	says("gateway", waits)
	rights("no")
	if r, code := e.plugin(t, "list"); code != 0 || !strings.Contains(r.stdout, "ingress") || !strings.Contains(r.stdout, "Idle") {
		t.Errorf("plugin list: exit %d\n%s%s", code, r.stdout, r.stderr)
	}
	taken, err := e.Network.Listen("tcp", cluster.NodeIP+":80") // so nobody has it
	if err != nil {
		t.Fatal(err)
	}
	e.apply(t, "default", strings.ReplaceAll(backend("plain"), "BOX", box))

	e.kubectl(t, "create", "ingress", "others", "--class=nginx", "--rule=others.example.com/*=plain:80")
	e.kubectl(t, "annotate", "ingress", "others", "seen=yes")
	says("ingress", waits)
	e.kubectl(t, "create", "ingress", "shop", "--rule=shop.example.com/*=plain:80") // no class
	e.failed(t, "default", "shop", "address already in use")
	if got := e.kubectl(t, "get", "ingress", "shop", "-o", "jsonpath={.status.loadBalancer.ingress}"); got != "" {
		t.Errorf("the Ingress that nothing serves has the addresses %s", got)
	}
	says("gateway", waits)
	rights("yes")
	taken.Close()
	e.awaitPod(t, "default", "plain", isReady)
	c := e.through(t, nil)
	e.atURL(t, c, "http://shop.example.com/", "200 HTTP/1.1 plain ")
	e.atURL(t, c, "http://others.example.com/", "404 ")
	contains(t, e.kubectl(t, "get", "ingressclass", "pintle", "-o", "yaml"), `is-default-class: "true"`)

	e.Kill()
	e = start()
	e.atURL(t, e.through(t, nil), "http://shop.example.com/", "200 HTTP/1.1 plain ")
	says("ingress", "true Ready")
	e.kubectl(t, "patch", "plugin", "ingress", "--type=merge", "-p", `{"spec":{"enabled":false}}`)
	says("ingress", "false Disabled")
	e.kubectl(t, "create", "ingress", "second", "--class=pintle", "--rule=second.example.com/*=plain:80")
	says("ingress", "false Disabled")
	rights("no")
}
