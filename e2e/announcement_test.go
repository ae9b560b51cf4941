package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// hardware is the hardware address of a machine on the link.
func hardware(t *testing.T, n *cluster.Network) string {
	t.Helper()
	var mac string
	if err := n.Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err == nil {
			mac = eth.Attrs().HardwareAddr.String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return mac
}

// found is which hardware address a machine has found for an address; it has to ask again
// if forget is set. Its kernel may forget what it has found at any time.
func found(n *cluster.Network, ip string, forget bool) (mac string, err error) {
	err = n.Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		list, err := netlink.NeighList(eth.Attrs().Index, netlink.FAMILY_ALL)
		for _, one := range list {
			if one.IP == nil || one.IP.String() != ip {
				continue
			}
			if mac = one.HardwareAddr.String(); forget {
				if gone := netlink.NeighDel(&one); !errors.Is(gone, syscall.ENOENT) {
					err = errors.Join(err, gone)
				}
			}
		}
		return err
	})
	return mac, err
}

// announcement is a LAN on which machines announce addresses and one without a node asks.
type announcement struct {
	*cell
	outside *cluster.Network
	client  *http.Client
	six     bool // services have addresses of IPv6, too
}

// addresses are the n-th of the ranges, from 1 to 8.
func (a *announcement) addresses(n int) []string {
	ips := []string{fmt.Sprintf("192.0.2.%d", 200+n)}
	if a.six {
		ips = append(ips, fmt.Sprintf("2001:db8:10::%x", 200+n))
	}
	return ips
}

// make makes a service of all families, and returns the addresses that it gets.
func (a *announcement) make(t *testing.T, name, policy string) []string {
	t.Helper()
	if a.six {
		return a.makeOf(t, name, "externalTrafficPolicy: "+policy+", ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6]", 2)
	}
	return a.makeOf(t, name, "externalTrafficPolicy: "+policy, 1)
}

// makeAt makes a service with one address.
func (a *announcement) makeAt(t *testing.T, name, ip string) {
	t.Helper()
	family := "IPv4"
	if strings.Contains(ip, ":") {
		family = "IPv6"
	}
	a.makeOf(t, name, fmt.Sprintf("ipFamilies: [%s], loadBalancerIP: %q", family, ip), 1)
}

func (a *announcement) makeOf(t *testing.T, name, spec string, n int) (ips []string) {
	t.Helper()
	a.apply(t, "default", fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, labels: {announced: here}}, spec: {type: LoadBalancer, %s, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}", name, spec))
	eventually(t, func(ctx context.Context) error {
		s, err := a.env.client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ips = nil
		for _, in := range s.Status.LoadBalancer.Ingress {
			ips = append(ips, in.IP)
		}
		if len(ips) != n {
			return fmt.Errorf("service %s has addresses %v, want %d", name, ips, n)
		}
		return nil
	})
	return ips
}

// served waits until addresses answer with a page from a pod, and are found at one of the
// hardware addresses each. A machine that found another one asks again: it may have missed
// what the node announced.
func (a *announcement) served(t *testing.T, ips []string, macs ...string) {
	t.Helper()
	for _, ip := range ips {
		a.servedAt(t, ip, macs...)
	}
}

// servedAt returns the hardware address, too.
func (a *announcement) servedAt(t *testing.T, ip string, macs ...string) (mac string) {
	t.Helper()
	within(t, 4*time.Minute, func(context.Context) error {
		resp, err := a.client.Get("http://" + host(ip) + "/")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if page, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(page), "on-") {
			return fmt.Errorf("%s answers %q: %w", ip, page, err)
		}
		if mac, err = found(a.outside, ip, false); err != nil {
			return err
		}
		if slices.Contains(macs, mac) {
			return nil
		}
		_, err = found(a.outside, ip, true)
		return errors.Join(fmt.Errorf("%s is found at %q, want one of %v", ip, mac, macs), err)
	})
	return mac
}

// says waits for an event of a service that has all words.
func (a *announcement) says(t *testing.T, name, kind, reason string, words ...string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		list, err := a.env.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range list.Items {
			other := func(word string) bool { return !strings.Contains(e.Message, word) }
			if e.Type == kind && e.Reason == reason && !slices.ContainsFunc(words, other) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event of %s says %s %q: %q", name, reason, words, said)
	})
}

// has gives the machine outside addresses, or takes them away.
func (a *announcement) has(t *testing.T, ips []string, change func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	if err := a.outside.Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		for _, ip := range ips {
			if err != nil {
				return err
			}
			address := &netlink.Addr{IPNet: netlink.NewIPNet(net.ParseIP(ip))}
			if strings.Contains(ip, ":") {
				address.Flags = unix.IFA_F_NODAD // it counts at once
			}
			err = change(eth, address)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// newAnnouncement has a kernel, a member, and a machine outside, in both families where this
// machine has them.
func newAnnouncement(t *testing.T) (*announcement, *env) {
	t.Helper()
	a := &announcement{six: withoutIPv6() == ""}
	if a.six {
		a.cell = newCellOf(t, "announce", 2, families{
			services: "10.96.0.0/16,fd00:96::/112", node: "10.244.0.0/24,fd00:244::/64", pods: "10.244.0.0/16,fd00:244::/56",
		})
	} else {
		a.cell = newCell(t, "announce", 2)
	}
	member := a.join(t, 1, a.argument(t))
	a.ready(t, 2)
	a.awaitAccount(t, "default")
	a.outside = a.lan.Networks[2]
	a.client = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DialContext: a.outside.Dial, DisableKeepAlives: true}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(a.try(t, "get", "services,pods,events,nodes,plugins", "-A", "-o", "wide").stdout)
		}
	})
	a.web(t, 1)
	ranges, one, eight := "", a.addresses(1), a.addresses(8)
	for i := range one {
		ranges += fmt.Sprintf(`,"%s-%s"`, one[i], eight[i])
	}
	a.kubectl(t, "patch", "plugin", "local", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"config":{"addresses":[%s]}}}`, ranges[1:]))
	// A lost node is found to be so earlier: what the test waits for is what follows.
	a.kubectl(t, "patch", "plugin", "nodelifecycle", "--type=merge", "-p", `{"spec":{"config":{"nodeMonitorGracePeriod":"25s"}}}`)
	return a, member
}

// TestAnnouncement: a machine of the network without a route finds load balancers at one of
// the nodes, by ARP and by NDP. Another node takes over when one is lost, when it is to keep out, and when
// the endpoints of a service with externalTrafficPolicy Local move. An address that a machine
// has is not taken.
func TestAnnouncement(t *testing.T) {
	t.Parallel()
	a, member := newAnnouncement(t)
	c := a.cell
	first, second := hardware(t, c.lan.Networks[0]), hardware(t, c.lan.Networks[1])

	// All are made first, so that the waits of the one are those of the others.
	used := a.addresses(2)
	a.has(t, used, netlink.AddrAdd)
	for i, ip := range used {
		a.makeAt(t, fmt.Sprint("used-", i), ip)
	}
	moves := a.make(t, "local", "Local")
	var spread [][]string
	for n := range 6 {
		spread = append(spread, a.make(t, fmt.Sprint("spread-", n), "Cluster"))
	}
	for i, ip := range used {
		a.says(t, fmt.Sprint("used-", i), corev1.EventTypeWarning, "AddressInUse", "The machine "+hardware(t, a.outside)+" on the network of node ", " has "+ip+",")
	}
	a.has(t, used, netlink.AddrDel) // it is tried again some time later; see below

	t.Run("local", func(t *testing.T) { // its endpoints are on one machine, then on the other
		a.served(t, moves, second)
		for _, ip := range moves {
			a.says(t, "local", corev1.EventTypeNormal, "AddressAnnounced", "Node "+c.node(1)+" announces "+ip+" on its network")
		}
		c.web(t, 0)
		c.kubectl(t, "delete", "pod", "on-"+c.node(1), "--timeout=110s")
		a.served(t, moves, first)
		c.web(t, 1)
	})

	var theirs []string // addresses of the second machine, which both can have
	t.Run("each machine has some", func(t *testing.T) {
		for family := range moves {
			seen := map[string]string{}
			for _, ips := range spread {
				seen[a.servedAt(t, ips[family], first, second)] = ips[family]
			}
			if len(seen) != 2 {
				t.Fatalf("all are found at one machine: %v", seen)
			}
			theirs = append(theirs, seen[second])
		}
	})

	t.Run("kept out", func(t *testing.T) {
		const label = corev1.LabelNodeExcludeBalancers
		c.kubectl(t, "label", "node", c.node(1), label+"=")
		a.served(t, theirs, first)
		c.kubectl(t, "label", "node", c.node(1), label+"-")
		a.served(t, theirs, second)
	})

	t.Run("no longer in use", func(t *testing.T) { a.served(t, used, first, second) })

	t.Run("lost", func(t *testing.T) {
		if err := member.Signal(syscall.SIGSTOP); err != nil { // it ends with the test
			t.Fatal(err)
		}
		if err := c.lan.Cut(1, true); err != nil {
			t.Fatal(err)
		}
		a.served(t, theirs, first)
		if err := c.lan.Cut(1, false); err != nil {
			t.Fatal(err)
		}
		if err := member.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.ready(t, 2)
		a.served(t, theirs, first, second) // who has found the other node keeps to it as long as that forwards
	})

	t.Run("stopped", func(t *testing.T) {
		c.kubectl(t, "delete", "pod", "on-"+c.node(1), "--timeout=110s")
		member.stop(t) // says what it leaves behind
		for _, ip := range theirs {
			if _, err := found(a.outside, ip, true); err != nil {
				t.Fatal(err)
			}
		}
		a.served(t, theirs, first)
	})
	c.kubectl(t, "-n", "default", "delete", "service", "-l", "announced=here", "--timeout=110s")
	for _, ip := range theirs {
		if mac, err := found(a.outside, ip, true); err != nil {
			t.Errorf("%s %v", mac, err)
		}
		eventually(t, func(context.Context) error {
			if _, err := a.client.Get("http://" + host(ip) + "/"); err == nil {
				return errors.New(ip + " answers without a service")
			}
			mac, err := found(a.outside, ip, true)
			if err == nil && mac != "" && mac != "00:00:00:00:00:00" {
				err = fmt.Errorf("%s is found at %s", ip, mac)
			}
			return err
		})
	}
	c.kubectl(t, "delete", "pod", "on-"+c.node(0), "--timeout=110s")
}
