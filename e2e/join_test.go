package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// cell is a kernel with a node and machines that join it, on one link.
type cell struct {
	*env
	lan      *cluster.LAN
	machines []*env
	start    func(set ...string) *env // the kernel, again
	// kernelConfig and memberConfig are the configuration files, set what a machine has besides.
	kernelConfig, memberConfig string
	set                        func(machine int) []string
}

// names of the nodes: that of the kernel is the first.
func (c *cell) node(machine int) string { return fmt.Sprint("node-", machine) }

// memberOptions are those of a machine that joins; argument is that of --join-file.
func (c *cell) memberOptions(machine int, argument string) cluster.Options {
	return cluster.Options{
		Name: c.Name + "-" + c.node(machine), Config: c.memberConfig, Network: c.lan.Networks[machine], Of: c.Cluster, Join: argument, Node: c.node(machine),
		// The machine has one tree of cgroups.
		Set: append([]string{"node.cgroupRoot=/pintle-" + c.node(machine)}, c.set(machine)...),
	}
}

// newCell starts a kernel with a node; machines join later.
func newCell(t *testing.T, name string, machines int) *cell {
	t.Helper()
	c := newBareCell(t, name, machines)
	c.begin(t)
	return c
}

// newBareCell makes the machines; begin starts the kernel.
func newBareCell(t *testing.T, name string, machines int) *cell {
	t.Helper()
	needContainers(t)
	binary(t, "pintle")
	lan, err := cluster.NewLAN(1 + machines)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lan.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range lan.Networks {
		registry, err := serveImages(n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := registry.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	data, err := os.MkdirTemp("", "pte") // short: sockets lie below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(data); err != nil {
			t.Error(err)
		}
	})
	c := &cell{lan: lan, kernelConfig: "configs/standalone.yaml", memberConfig: "configs/node.yaml", set: func(int) []string { return nil }}
	c.start = func(set ...string) *env {
		t.Helper()
		// The port is the same after a restart: machines know it.
		e, err := launch(cluster.Options{
			Name: name, Config: c.kernelConfig, Data: data, Network: lan.Networks[0], Node: c.node(0), Set: slices.Concat([]string{"api.port=6443"}, c.set(0), set),
		})
		if err != nil {
			t.Fatal(err)
		}
		c.env = e
		return e
	}
	return c
}

// begin starts the kernel, which ends with the test.
func (c *cell) begin(t *testing.T) {
	t.Helper()
	c.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", c.Name, c.Log(40))
		}
		c.stop(t)
	})
}

// join starts a machine, which ends with the test.
func (c *cell) join(t *testing.T, machine int, argument string) *env {
	t.Helper()
	m, err := launch(c.memberOptions(machine, argument))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-m.Exited():
			return
		default:
		}
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", m.Name, m.Log(40))
		}
		m.stop(t)
	})
	c.machines = append(c.machines, m)
	return m
}

// pintleHere runs a command of pintle where the kernel runs.
func (c *cell) pintleHere(t *testing.T, args ...string) result {
	t.Helper()
	return c.run(t, "", binary(t, "pintle"), args...)
}

// argument is that of --join for a new token.
func (c *cell) argument(t *testing.T, flags ...string) string {
	t.Helper()
	r := c.pintleHere(t, append([]string{"token", "create", "--print-join-command"}, flags...)...)
	argument := printedArgument(r.stdout)
	if r.err != nil || argument == "" {
		t.Fatalf("token create: %v\n%s%s", r.err, r.stdout, r.stderr)
	}
	return argument
}

// printedArgument is the one in a command that joins, empty where it is another command.
func printedArgument(command string) string {
	argument, ok := strings.CutPrefix(strings.TrimSpace(command), "echo '")
	argument, program, ok2 := strings.Cut(argument, "' | ")
	if !ok || !ok2 || !strings.HasSuffix(program, "bin/pintle node --config configs/node.yaml --join-file -") {
		return ""
	}
	return argument
}

// ready waits until the nodes are, of which there are so many.
func (c *cell) ready(t *testing.T, want int) map[string]*corev1.Node {
	t.Helper()
	found := map[string]*corev1.Node{}
	eventually(t, func(ctx context.Context) error {
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		clear(found)
		for i := range nodes.Items {
			n := &nodes.Items[i]
			for _, cond := range n.Status.Conditions {
				if cond.Type == corev1.NodeReady && cond.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
					found[n.Name] = n
				}
			}
		}
		if len(found) != want || len(nodes.Items) != want {
			return fmt.Errorf("%d of %d nodes are ready", len(found), len(nodes.Items))
		}
		return nil
	})
	return found
}

// word is one that no container of another cluster has among its arguments.
func (c *cell) word(machine int) string {
	return fmt.Sprintf("join-%s-%s", c.node(machine), filepath.Base(c.Data))
}

// processesWith are those of boxes that have an argument of their own.
func processesWith(argument string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.HasPrefix(args, []byte("/box\x00")) && bytes.Contains(args, []byte("\x00"+argument+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestJoin: three machines, of which one has the kernel, are one cluster by the README's
// commands. Pods run on all, logs and exec reach them. While the kernel is away pods go on, and
// a container that ends is started again; when it is back it knows. A machine that leaves
// leaves nothing behind.
func TestJoin(t *testing.T) {
	t.Parallel()
	c := newCell(t, "join", 2)
	blocks := map[string][]string{}
	for _, f := range fences(t, "README.md") {
		blocks[f.note] = append(blocks[f.note], strings.TrimSpace(f.text))
	}
	if len(blocks["join"]) != 2 || len(blocks["joins"]) != 1 {
		t.Fatalf("README.md has no commands for machines that join: %q", blocks)
	}
	printed := strings.TrimSpace(shell(t, c.env, c.Path(), blocks["join"][0]))
	argument := printedArgument(printed)
	if printedArgument(blocks["joins"][0]) != "TOKEN" || argument == "" {
		t.Fatalf("the command of README.md is %q, and %q is printed", blocks["joins"][0], printed)
	}
	c.join(t, 1, argument)
	c.join(t, 2, argument) // a token is good for several
	nodes := c.ready(t, 3)
	contains(t, shell(t, c.env, c.Path(), blocks["join"][1]), c.node(0), c.node(1), c.node(2))
	ranges := map[string]bool{}
	for _, n := range nodes {
		ranges[n.Spec.PodCIDR] = true
	}
	if len(ranges) != 3 || ranges[""] {
		t.Errorf("ranges of pod IPs: %v", ranges)
	}

	const ns = "default"
	c.awaitAccount(t, ns)
	for i := range 3 {
		name := "on-" + c.node(i)
		c.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: web}}
spec:
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: %[3]s, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}
  - {name: waits, image: %[3]s, args: [wait, %[4]s]}
`, name, c.node(i), box, c.word(i)))
	}
	pods := func(when string) {
		t.Helper()
		for i := range 3 {
			name := "on-" + c.node(i)
			p := c.awaitPod(t, ns, name, isReady)
			if p.Spec.NodeName != c.node(i) {
				t.Errorf("%s: pod %s is on %s", when, name, p.Spec.NodeName)
			}
			eventually(t, func(context.Context) error {
				if r := c.try(t, "-n", ns, "exec", name, "-c", "web", "--", "/box", "echo", "alive"); r.err != nil || r.stdout != "alive\n" {
					return fmt.Errorf("%s: exec in %s: %+v", when, name, r)
				}
				return nil
			})
			contains(t, c.logs(t, ns, name, "waits"), "started "+c.word(i))
		}
	}
	pods("at first")
	// A pod of a machine without a kernel has the API by its cluster IP: that machine's
	// service proxy leads there.
	for i := 1; i < 3; i++ {
		const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
		eventually(t, func(context.Context) error {
			r := c.try(t, "-n", ns, "exec", "on-"+c.node(i), "-c", "web", "--", "/box", "get", "https://$KUBERNETES_SERVICE_HOST/version", account+"token", account+"ca.crt")
			if r.err != nil || !strings.HasPrefix(r.stdout, "200\n") {
				return fmt.Errorf("the API from %s: %+v", c.node(i), r)
			}
			return nil
		})
	}
	t.Run("a node's rights", func(t *testing.T) { c.nodeRights(t) })
	t.Run("hostile joins", func(t *testing.T) { c.hostileJoins(t) })
	t.Run("revoked clients", func(t *testing.T) { c.revokedClients(t, 1) })

	before := c.lives(t, ns, "web")
	c.Kill()
	for i := 1; i < 3; i++ {
		pids := processesWith(c.word(i))
		if len(pids) != 1 {
			t.Fatalf("processes of the pod on %s without a kernel: %v", c.node(i), pids)
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(context.Context) error {
			if now := processesWith(c.word(i)); len(now) != 1 || now[0] == pids[0] {
				return fmt.Errorf("container on %s is not started again: %v", c.node(i), now)
			}
			return nil
		})
	}
	c.start()
	c.ready(t, 3)
	pods("with the kernel back")
	for i := 1; i < 3; i++ {
		name := "on-" + c.node(i)
		c.awaitPod(t, ns, name, func(p *corev1.Pod) error {
			for _, s := range p.Status.ContainerStatuses {
				if want := map[string]int32{"waits": 1}[s.Name]; s.RestartCount != want {
					return fmt.Errorf("container %s of %s was restarted %d times, want %d", s.Name, name, s.RestartCount, want)
				}
			}
			return nil
		})
	}
	for name, l := range c.lives(t, ns, "web") {
		if l.uid != before[name].uid || l.node != before[name].node {
			t.Errorf("pod %s: before %+v, after %+v", name, before[name], l)
		}
	}

	// One machine stops and is back without a token, the other leaves.
	first, second := c.machines[0], c.machines[1]
	data := first.Data
	again := c.memberOptions(1, "")
	again.Data = data
	stopKeeping(t, first)
	m, err := launch(again)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.stop(t)
		if err := os.RemoveAll(data); err != nil {
			t.Error(err)
		}
	})
	c.ready(t, 3)
	pods("after a restart of the machine's node")
	c.kubectl(t, "delete", "pod", "on-"+c.node(2), "--timeout=110s")
	second.stop(t) // says what it leaves behind
	c.kubectl(t, "delete", "node", c.node(2))
	c.ready(t, 2)
}

// stopKeeping stops a machine's node in order; its data directory stays.
func stopKeeping(t *testing.T, m *env) {
	t.Helper()
	if err := m.Leave(); err != nil {
		t.Fatal(err)
	}
}

// nodeRights: who has a machine has its node's rights, and no other's.
func (c *cell) nodeRights(t *testing.T) {
	kubeconfig := filepath.Join(c.machines[0].Data, "node.kubeconfig")
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	as := func(stdin string, args ...string) result {
		return c.machines[0].run(t, stdin, path, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	}
	if r := as("", "get", "node", c.node(1), "-o", "name"); r.err != nil {
		t.Fatalf("its own node: %+v", r)
	}
	// What its plugins read it may list, and no more.
	for _, what := range []string{"nodes", "namespaces", "pods", "networkpolicies", "services", "endpointslices"} {
		if r := as("", "get", what, "-A", "-o", "name"); r.err != nil {
			t.Errorf("a node may not list %s: %s", what, r.stderr)
		}
	}
	for _, args := range [][]string{
		{"get", "node", c.node(2)}, {"get", "secrets", "-A"}, {"-n", "kube-system", "get", "secrets"}, {"get", "pod", "on-" + c.node(2)}, {"get", "serviceaccounts", "-A"},
		{"get", "namespace", "default"}, {"delete", "namespace", "default"}, {"label", "namespace", "default", "x=y"}, {"-n", "default", "delete", "networkpolicy", "any"},
		{"label", "node", c.node(2), "x=y"}, {"delete", "node", c.node(2)}, {"label", "node", c.node(1), "node-restriction.kubernetes.io/x=y"},
		{"taint", "node", c.node(1), "x=y:NoSchedule"}, {"delete", "pod", "on-" + c.node(2)}, {"exec", "on-" + c.node(2), "-c", "web", "--", "/box", "echo"},
		{"create", "token", "default"}, {"get", "configmaps", "-A"}, {"create", "clusterrolebinding", "x", "--clusterrole=cluster-admin", "--group=system:nodes"},
	} {
		if r := as("", args...); r.err == nil || !strings.Contains(r.stderr, "orbidden") {
			t.Errorf("a node may %v: %v %s%s", args, r.err, r.stdout, r.stderr)
		}
	}
	if r := as(fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s-x}\n", c.node(1)), "create", "-f", "-"); r.err == nil || !strings.Contains(r.stderr, "is not allowed to modify node") {
		t.Errorf("a node makes another: %+v", r)
	}
	for _, signer := range []string{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName} {
		if r := as(signingRequest(t, "stolen", c.node(2), signer), "create", "-f", "-"); r.err == nil || !strings.Contains(r.stderr, "orbidden") {
			t.Errorf("a node asks for another's certificate of %s: %+v", signer, r)
		}
	}
}

// hostileJoins: machines that have no business here, by what they are told.
func (c *cell) hostileJoins(t *testing.T) {
	good := c.argument(t)
	token, rest, _ := strings.Cut(good, "@")
	id, _, _ := strings.Cut(token, ".")
	server, _, _ := strings.Cut(rest, "/")
	of := func(flags ...string) string {
		t.Helper()
		r := c.pintleHere(t, append([]string{"token", "create"}, flags...)...)
		if r.err != nil {
			t.Fatalf("token create %v: %s", flags, r.stderr)
		}
		return strings.TrimSpace(r.stdout) + "@" + rest
	}
	expired := of("--ttl", "1h")
	secretID, _, _ := strings.Cut(expired, ".")
	c.kubectl(t, "-n", "kube-system", "patch", "secret", "bootstrap-token-"+secretID, "-p", `{"stringData":{"expiration":"2020-01-01T00:00:00Z"}}`)
	eventually(t, func(context.Context) error {
		if r := c.pintleHere(t, "token", "list"); r.err != nil || strings.Contains(r.stdout, secretID) {
			return fmt.Errorf("the expired token is there: %v\n%s", r.err, r.stdout)
		}
		return nil
	})
	attempts := map[string]struct{ argument, node, want string }{
		"wrong secret":      {id + ".0000000000000000@" + rest, "thief", "is not that of the token " + id},
		"unknown token":     {"zzzzzz.0000000000000000@" + rest, "thief", "token zzzzzz has not signed"},
		"expired token":     {expired, "thief", "has not signed"},
		"another authority": {token + "@" + server + "/sha256:" + strings.Repeat("0", 64), "thief", "somebody is between"},
		"for signing alone": {of("--usages", "signing"), "thief", "does not take token"},
		"not for signing":   {of("--usages", "authentication"), "thief", "has not signed"},
		"of another group":  {of("--groups", "system:bootstrappers:others"), "thief", "ask for the certificate of node thief"},
		"a living node":     {good, c.node(1), "node " + c.node(1) + " is there already"},
		"the kernel's node": {good, c.node(0), "node " + c.node(0) + " is there already"},
		"no hash":           {token + "@" + server, "thief", "the hash of the cluster's authority is missing"},
	}
	t.Run("by --join", func(t *testing.T) { // ends with the last of them
		for name, tc := range attempts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				out, err := c.failsToJoin(t, tc.argument, tc.node)
				if err != nil || !strings.Contains(out, tc.want) || strings.Contains(out, token) {
					t.Errorf("%v\n%s\nwant %q", err, out, tc.want)
				}
			})
		}
	})
	// Who has a token and asks the API for the certificate of a node that is there.
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	as := func(stdin string, args ...string) result {
		return c.run(t, stdin, path, append([]string{"--server", "https://" + server, "--certificate-authority", filepath.Join(c.Data, "pki", "ca.crt"), "--kubeconfig", os.DevNull, "--token", token}, args...)...)
	}
	if r := as(signingRequest(t, "stolen", c.node(1), certificatesv1.KubeAPIServerClientKubeletSignerName), "create", "-f", "-"); r.err != nil {
		t.Fatalf("a token asks for a certificate: %+v", r)
	}
	eventually(t, func(ctx context.Context) error {
		r, err := c.client.CertificatesV1().CertificateSigningRequests().Get(ctx, "stolen", metav1.GetOptions{})
		if err == nil && (len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Type != certificatesv1.CertificateDenied || r.Status.Conditions[0].Reason != "NodeExists" || len(r.Status.Certificate) > 0) {
			err = fmt.Errorf("the certificate of a living node: %+v", r.Status)
		}
		return err
	})
	c.kubectl(t, "delete", "csr", "stolen")
	for _, args := range [][]string{{"get", "secrets", "-A"}, {"get", "pods", "-A"}, {"delete", "node", c.node(1)}, {"label", "node", c.node(1), "x=y"}} {
		if r := as("", args...); r.err == nil || !strings.Contains(r.stderr, "orbidden") {
			t.Errorf("a token may %v: %+v", args, r)
		}
	}
	if r := as(signingRequest(t, "admin", "x", certificatesv1.KubeAPIServerClientSignerName), "create", "-f", "-"); r.err == nil {
		eventually(t, func(ctx context.Context) error {
			r, err := c.client.CertificatesV1().CertificateSigningRequests().Get(ctx, "admin", metav1.GetOptions{})
			if err == nil && len(r.Status.Conditions) > 0 {
				err = fmt.Errorf("a request of another signer is decided: %+v", r.Status.Conditions)
			}
			return err
		})
	}
	if r := c.pintleHere(t, "token", "delete", id); r.err != nil || r.stdout != fmt.Sprintf("bootstrap token %q deleted\n", id) {
		t.Errorf("%+v", r)
	}
	if out, err := c.failsToJoin(t, good, "thief"); err != nil || !strings.Contains(out, "has not signed") {
		t.Errorf("with a token that was deleted: %v\n%s", err, out)
	}
	c.ready(t, 3)
}

// failsToJoin runs a machine that has to end by itself; nothing of it may be left.
func (c *cell) failsToJoin(t *testing.T, argument, node string) (string, error) {
	t.Helper()
	data := t.TempDir()
	var out bytes.Buffer
	cmd := exec.CommandContext(bound(t), binary(t, "pintle"), "node", "--config", c.Path("configs", "node.yaml"), "--data", data, "--set", "node.name="+node, "--join", argument, "--join-timeout", "40s")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 5*time.Second
	err := c.lan.Networks[2].Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 && exit.ExitCode() != 2 {
		return out.String(), fmt.Errorf("it ended with %w", err)
	}
	for _, left := range []string{"node.kubeconfig", filepath.Join("pki", "kubelet-client-current.pem")} {
		if _, err := os.Lstat(filepath.Join(data, left)); err == nil {
			return out.String(), fmt.Errorf("%s is left", left)
		}
	}
	return out.String(), nil
}

// signingRequest is a manifest that asks for a certificate about a node.
func signingRequest(t *testing.T, name, node, signer string) string {
	t.Helper()
	usage := "client auth"
	x := nodeRequest(t, node, signer == certificatesv1.KubeletServingSignerName)
	if signer == certificatesv1.KubeletServingSignerName {
		usage = "server auth"
	}
	return fmt.Sprintf("apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: %s}\nspec: {request: %s, signerName: %s, usages: [digital signature, %s]}\n", name, x, signer, usage)
}

// TestAnotherRangeWhileItRuns: a node that is given another range of pod IPs starts anew with
// it; the kernel that it belongs to goes on.
func TestAnotherRangeWhileItRuns(t *testing.T) {
	t.Parallel()
	o := givenRanges(t, "anew")
	// A Node that is gone is noticed when its status is due.
	o.Set = append(o.Set, "node.nodeStatusReportFrequency=1s", "node.nodeStatusUpdateFrequency=1s")
	start := crashable(t, o)
	e := start()
	e.awaitAccount(t, "default")
	own := func(ctx context.Context) (*corev1.Node, error) {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/os"})
		if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Spec.PodCIDR == "" {
			return nil, fmt.Errorf("own nodes: %d, of which none has a range: %v", len(nodes.Items), err)
		}
		return &nodes.Items[0], nil
	}
	var first *corev1.Node
	eventually(t, func(ctx context.Context) (err error) { first, err = own(ctx); return err })
	e.serves(t, "a", "", first.Spec.PodCIDR)
	// Nodes that never get ready take all ranges, and one more waits for this one's.
	for i := range 6 {
		if _, err := e.client.CoreV1().Nodes().Create(bound(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("other-", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	with := func(ctx context.Context) (map[string]string, error) {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		all := map[string]string{}
		for _, n := range nodes.Items {
			if n.Spec.PodCIDR != "" {
				all[n.Name] = n.Spec.PodCIDR
			}
		}
		return all, nil
	}
	eventually(t, func(ctx context.Context) error {
		if all, err := with(ctx); err != nil || len(all) != 6 {
			return fmt.Errorf("ranges %v, %v", all, err)
		}
		return nil
	})
	var second *corev1.Node
	eventually(t, func(ctx context.Context) (err error) {
		if second, err = own(ctx); err != nil {
			// The one that waited has it: another one goes.
			if all, err := with(ctx); err == nil && len(all) == 6 {
				for name := range maps.Keys(all) {
					if strings.HasPrefix(name, "other-") && all[name] != first.Spec.PodCIDR {
						return errors.Join(fmt.Errorf("%s goes", name), e.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))
					}
				}
			}
			return err
		}
		if second.Spec.PodCIDR == first.Spec.PodCIDR {
			return errors.Join(errors.New("it has the same range"), e.client.CoreV1().Nodes().Delete(ctx, second.Name, metav1.DeleteOptions{}))
		}
		return nil
	})
	if err := e.AwaitLog(bound(t), "the node starts anew"); err != nil {
		t.Errorf("the log does not tell: %v", err)
	}
	e.serves(t, "b", "", second.Spec.PodCIDR)
	select {
	case <-e.Exited():
		t.Error("the kernel has ended")
	default:
	}
}
