package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"

	"pintle.dev/pintle/e2e/cluster"
)

// tools are the programs of this machine by which networks are changed.
func tools(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, dir := range []string{"/sbin", "/usr/sbin", "/bin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"} {
		for _, pattern := range []string{"iptables*", "ip6tables*", "xtables*", "ebtables*", "arptables*", "nft", "ip", "tc", "bridge", "ipset", "conntrack", "sysctl", "modprobe"} {
			list, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range list {
				file, err := filepath.EvalSymlinks(file)
				if info, err2 := os.Stat(file); err == nil && err2 == nil && info.Mode().IsRegular() && !slices.Contains(found, file) {
					found = append(found, file)
				}
			}
		}
	}
	return found
}

// openNamespace is a namespace that may have pods with host ports.
func (e *env) openNamespace(t *testing.T) string {
	t.Helper()
	ns := e.namespace(t)
	e.kubectl(t, "label", "namespace", ns, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
	return ns
}

// web is a pod that serves at 8080, with ports of the machine.
func web(name, ports string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %[1]s}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: %s, args: [serve], ports: [%s], "+
		"readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}}\n---\n", name, box, ports)
}

// asker asks for pages from a network.
func asker(n *cluster.Network) func(address string) (string, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	return func(address string) (string, error) {
		resp, err := client.Get("http://" + address + "/")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		return string(page), err
	}
}

// sees waits until a page comes of a pod that sees a client of this address.
func sees(t *testing.T, ask func(string) (string, error), address, pod, client string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		page, err := ask(address)
		if err == nil && !strings.HasPrefix(page, pod+" "+client+":") {
			err = fmt.Errorf("%s answers %q; want pod %s, which sees %s", address, page, pod, client)
		}
		return err
	})
}

// ends waits until nobody answers.
func ends(t *testing.T, ask func(string) (string, error), address string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if page, err := ask(address); err == nil {
			return fmt.Errorf("%s answers: %s", address, page)
		}
		return nil
	})
}

// neighbour is another machine on the cluster's link.
func (e *env) neighbour(t *testing.T) *cluster.Network {
	t.Helper()
	second, err := cluster.NewNeighbour(e.Network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	return second
}

// TestNoTools: where no tool for networks is, the README's minute works, and so do host
// ports, a node port, a service and the way out of pods; nothing is said of it.
func TestNoTools(t *testing.T) {
	t.Parallel()
	needContainers(t)
	for _, program := range []string{"unshare", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			skip(t, "hiding programs, or the README's commands, need "+program)
		}
	}
	absent := tools(t)
	e := private(t, cluster.Options{Name: "notools", Config: "configs/standalone.yaml", Absent: absent})
	for _, file := range absent {
		if info, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", e.Pid(), file)); err != nil || info.Mode().IsRegular() {
			t.Fatalf("the cluster finds %s: %v", file, err)
		}
	}
	contains(t, strings.Join(e.Screen(), "\n"), "proxy     nftables")
	out := shell(t, e, e.Path(), script("README.md", fences(t, "README.md"), "cluster"))
	contains(t, out, `deployment "frontend" successfully rolled out`, "<li>hello</li>", `namespace "guestbook" deleted`)

	ns := e.openNamespace(t)
	e.apply(t, ns, web("one", "{containerPort: 8080, hostPort: 8081}")+web("two", "{containerPort: 8080}")+
		"{apiVersion: v1, kind: Service, metadata: {name: two}, spec: {type: NodePort, selector: {app: two}, ports: [{port: 80, targetPort: 8080, nodePort: 30123}]}}")
	one, two := e.awaitPod(t, ns, "one", isReady), e.awaitPod(t, ns, "two", isReady)
	second := e.neighbour(t)
	outside, inside := asker(second), asker(e.Network)
	sees(t, outside, cluster.NodeIP+":8081", "one", cluster.NeighbourIP)
	sees(t, inside, "127.0.0.1:8081", "one", "10.244.0.1")
	eventually(t, func(context.Context) error {
		page, err := outside(cluster.NodeIP + ":30123")
		if err == nil && !strings.HasPrefix(page, "two ") {
			err = errors.New(page)
		}
		return err
	})
	e.fromPod(t, ns, "one", cluster.NodeIP+":8081", "one 10.244.0.1:")
	e.fromPod(t, ns, "two", "two."+ns+":80", "two 10.244.0.1:")
	e.fromPod(t, ns, "one", two.Status.PodIP+":8080", "two "+one.Status.PodIP+":")
	e.wayOut(t, ns, "one", second)
	for _, line := range strings.Split(e.Log(10000), "\n") {
		for _, word := range []string{"not installed", "executable file not found", "iptables "} {
			if strings.Contains(line, word) && (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")) {
				t.Errorf("the log says: %s", line)
			}
		}
	}
}

// fromPod waits until a pod gets a page that begins so.
func (e *env) fromPod(t *testing.T, ns, pod, address, want string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		r := e.try(t, "-n", ns, "exec", pod, "--", "/box", "get", "http://"+address+"/")
		if page, ok := strings.CutPrefix(r.stdout, "200\n"); r.err != nil || !ok || !strings.HasPrefix(page, want) {
			return fmt.Errorf("%s asks %s: %w: %s%s; want %s", pod, address, r.err, r.stdout, r.stderr, want)
		}
		return nil
	})
}

// wayOut: a machine outside sees the node's address when a pod asks.
func (e *env) wayOut(t *testing.T, ns, pod string, outside *cluster.Network) {
	t.Helper()
	l, err := outside.Listen("tcp", cluster.NeighbourIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "outside %s\n", r.RemoteAddr) })}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	e.fromPod(t, ns, pod, l.Addr().String(), "outside "+cluster.NodeIP+":")
	server.Close()
	<-done
}

// hasHostPorts says whether the machine has the rules of host ports.
func (e *env) hasHostPorts() (has bool, err error) {
	err = e.Network.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		list, err := conn.ListTables()
		has = slices.ContainsFunc(list, func(t *nftables.Table) bool { return t.Name == "pintle0-hostports" })
		return err
	})
	return has, err
}

// TestHostPorts: host ports lead to pods by their address, are put right when somebody deletes
// all rules, outlive the kernel, and go with their pods.
func TestHostPorts(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "hostports", Config: "configs/standalone.yaml"})
	e := start()
	ns := e.openNamespace(t)
	e.apply(t, ns, web("one", "{containerPort: 8080, hostPort: 8081, hostIP: "+cluster.NodeIP+"}")+web("two", "{containerPort: 8080, hostPort: 8081, hostIP: 127.0.0.1}")+
		web("three", "{containerPort: 8080, hostPort: 8082}"))
	for _, pod := range []string{"one", "two", "three"} {
		e.awaitPod(t, ns, pod, isReady)
	}
	second := e.neighbour(t)
	outside, inside := asker(second), asker(e.Network)
	all := func() {
		t.Helper()
		sees(t, outside, cluster.NodeIP+":8081", "one", cluster.NeighbourIP)
		sees(t, inside, "127.0.0.1:8081", "two", "10.244.0.1")
		sees(t, outside, cluster.NodeIP+":8082", "three", cluster.NeighbourIP)
		sees(t, inside, "localhost:8082", "three", "10.244.0.1")
		e.fromPod(t, ns, "three", cluster.NodeIP+":8082", "three 10.244.0.1:")
		e.wayOut(t, ns, "one", second)
	}
	all()
	flush := func() {
		t.Helper()
		if err := e.Network.Do(func() error {
			conn, err := nftables.New()
			if err != nil {
				return err
			}
			conn.FlushRuleset()
			return conn.Flush()
		}); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	all()
	e.Kill()
	sees(t, outside, cluster.NodeIP+":8082", "three", cluster.NeighbourIP)
	flush() // nobody is there to put it right
	e = start()
	all()
	e.kubectl(t, "-n", ns, "delete", "pod", "three", "--timeout=110s")
	ends(t, outside, cluster.NodeIP+":8082")
	sees(t, outside, cluster.NodeIP+":8081", "one", cluster.NeighbourIP)
	e.kubectl(t, "-n", ns, "delete", "pod", "--all", "--timeout=110s")
	eventually(t, func(context.Context) error {
		has, err := e.hasHostPorts()
		if err == nil && has {
			err = errors.New("the rules of host ports are left")
		}
		return err
	})
}
