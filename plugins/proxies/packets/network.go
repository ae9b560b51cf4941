package packets

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// role is the environment variable by which the test's binary knows what it is
// in a process of its own.
const role = "PINTLE_PACKETS_ROLE"

func init() {
	if os.Getenv(role) == "host" {
		serveHost()
		os.Exit(0)
	}
}

// network is the node with the hosts behind it.
type network struct{ hosts map[string]*host }

// host is a process in a network namespace of its own.
type host struct {
	ip      string
	in      *json.Encoder
	out     *json.Decoder
	process *exec.Cmd
}

// order is a command to a host; answer is its reply.
type (
	order struct {
		Run, Serve, Get string
		Protocol        string // of Get; "": TCP
		Port            int    // from which UDP asks; 0: another each time. Of malformed packets: their seed
		Brief           bool   // no answer is expected, and none is waited for long
		Malformed       int    // so many packets go to Get
		From            string // their source
	}
	answer struct{ Text, Error string }
)

// patience is how long an answer may take before it counts as none; longer where one has to
// come, and brief where none may.
const patience, longer, brief = time.Second, 20 * time.Second, 200 * time.Millisecond

// Inside runs the test again as the node, in a network namespace of its own, and
// reports whether this process is that one. It skips the test without root.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(role) == "node" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), role+"=node")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// lay makes the network: the node is 198.51.100.1 for the outside and the first
// address of each host's range.
func lay(t *testing.T) *network {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the program ip is not installed; install the package iproute2")
	}
	n := &network{hosts: map[string]*host{}}
	run(t, "ip link set lo up")
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		t.Skipf("packets cannot be forwarded here: %v", err)
	}
	for name, prefix := range map[string]string{"a": "10.244.1.", "b": "10.244.2.", "pod": "10.244.3.", "outside": "198.51.100."} {
		h := start(t, prefix+"2")
		n.hosts[name] = h
		run(t, fmt.Sprintf("ip link add to-%s type veth peer name eth0 netns %d", name, h.process.Process.Pid))
		run(t, fmt.Sprintf("ip addr add %s1/24 dev to-%s && ip link set to-%s up", prefix, name, name))
		h.must(t, order{Run: fmt.Sprintf("ip link set lo up && ip addr add %s/24 dev eth0 && ip link set eth0 up && ip route add default via %s1", h.ip, prefix)})
	}
	run(t, "ip route add default via 198.51.100.2") // as a node has one
	for _, name := range []string{"a", "b"} {
		n.hosts[name].must(t, order{Serve: name})
	}
	return n
}

// lay6 gives everybody an address of IPv6 beside the other, with the same part of the host.
func (n *network) lay6(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0); err != nil {
		t.Skipf("packets of IPv6 cannot be forwarded here: %v", err)
	}
	for name, prefix := range map[string]string{"a": "fd00:244:1::", "b": "fd00:244:2::", "pod": "fd00:244:3::", "outside": "2001:db8:100::"} {
		run(t, fmt.Sprintf("ip -6 addr add %s1/64 dev to-%s nodad", prefix, name))
		n.hosts[name].must(t, order{Run: fmt.Sprintf("ip -6 addr add %s2/64 dev eth0 nodad && ip -6 route add default via %s1", prefix, prefix)})
	}
	run(t, "ip -6 route add default via 2001:db8:100::2")
	// Neighbours find each other some time after the addresses are there.
	for _, from := range []string{"a", "b", "pod", "outside", "node"} {
		for _, to := range []string{"[fd00:244:1::2]:8080", "[fd00:244:2::2]:8080"} {
			a := n.ask(t, from, to)
			for deadline := time.Now().Add(2 * time.Minute); a.Error != "" && time.Now().Before(deadline); {
				a = n.ask(t, from, to)
			}
			if a.Error != "" {
				t.Fatalf("%s does not reach %s by IPv6: %s", from, to, a.Error)
			}
		}
	}
}

// Alone makes a node without others, within Inside: it has the pods' addresses 10.244.0.2 and
// 10.244.0.3, fd00:244::2 and fd00:244::3 itself, and routes to the services of 10.96.0.0/16 and
// fd00:96::/112.
func Alone(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the program ip is not installed; install the package iproute2")
	}
	for _, command := range []string{
		"ip link set lo up", "ip link add pods type bridge", "ip link set pods up",
		"ip addr add 10.244.0.2/24 dev pods", "ip addr add 10.244.0.3/24 dev pods", "ip route add 10.96.0.0/16 dev pods",
		"ip -6 addr add fd00:244::2/64 dev pods nodad", "ip -6 addr add fd00:244::3/64 dev pods nodad", "ip -6 route add fd00:96::/112 dev pods",
	} {
		run(t, command)
	}
}

func run(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func start(t *testing.T, ip string) *host {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=host")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	t.Cleanup(func() { // a host ends with its input
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("host %s: %v", ip, err)
		}
	})
	return &host{ip: ip, in: json.NewEncoder(in), out: json.NewDecoder(out), process: cmd}
}

func (h *host) must(t *testing.T, o order) {
	t.Helper()
	if a := h.do(t, o); a.Error != "" {
		t.Fatalf("%+v: %s", o, a.Error)
	}
}

func (h *host) do(t *testing.T, o order) answer {
	t.Helper()
	var a answer
	if err := h.in.Encode(o); err != nil {
		t.Fatal(err)
	}
	if err := h.out.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

// ask asks an address from a host, or from the node itself.
func (n *network) ask(t *testing.T, from, address string) answer {
	t.Helper()
	return n.order(t, from, order{Get: address})
}

// order has a question asked from a host, or from the node itself.
func (n *network) order(t *testing.T, from string, o order) answer {
	t.Helper()
	if from == "node" {
		return o.ask()
	}
	return n.hosts[from].do(t, o)
}

// ask asks the question of an order.
func (o order) ask() answer {
	wait := longer
	switch {
	case o.Protocol == "":
		wait = patience
	case o.Brief:
		wait = brief
	}
	switch o.Protocol {
	case "UDP":
		return askUDP(o.Get, o.Port, wait)
	case "SCTP":
		return askSCTP(o.Get, wait)
	}
	return get(o.Get, wait)
}

// serveHost is the whole life of a host.
func serveHost() {
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		var a answer
		switch {
		case o.Run != "":
			if text, err := exec.Command("sh", "-c", o.Run).CombinedOutput(); err != nil {
				a.Error = fmt.Sprintf("%v: %s", err, text)
			}
		case o.Serve != "":
			if err := errors.Join(serveTCP(o.Serve), serveUDP(o.Serve), serveSCTP(o.Serve)); err != nil {
				a.Error = err.Error()
			}
		case o.Malformed > 0:
			if err := sendMalformed(o.Malformed, o.From, o.Get, o.Port); err != nil {
				a.Error = err.Error()
			}
		default:
			a = o.ask()
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

// serveTCP answers each request with a name and the address that it came from, until the
// process ends.
func serveTCP(name string) error {
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s %s", name, client)
	}))
	return nil
}

// get is the body of a page; for one that is not 200 its code and headers too.
func get(address string, wait time.Duration) answer {
	client := http.Client{Timeout: wait, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + "/")
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{Error: err.Error()}
	}
	if weight := resp.Header.Get("X-Load-Balancing-Endpoint-Weight"); weight != "" {
		return answer{Text: fmt.Sprintf("%d weight %s", resp.StatusCode, weight)}
	}
	return answer{Text: string(body)}
}
