package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// announcedAt is the address of a service of the test, by a number from 1 to 8.
func announcedAt(n int) string { return fmt.Sprintf("192.0.2.%d", 200+n) }

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
		list, err := netlink.NeighList(eth.Attrs().Index, netlink.FAMILY_V4)
		for _, one := range list {
			if one.IP.String() != ip {
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
}

// served waits until an address answers with a page from a pod, and is found at one of the
// hardware addresses, which it returns. A machine that found another one asks again: it may
// have missed what the node announced.
func (a *announcement) served(t *testing.T, ip string, macs ...string) (mac string) {
	t.Helper()
	within(t, 4*time.Minute, func(context.Context) error {
		resp, err := a.client.Get("http://" + ip + "/")
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
		for _, want := range macs {
			if mac == want {
				return nil
			}
		}
		_, err = found(a.outside, ip, true)
		return errors.Join(fmt.Errorf("%s is found at %q, want one of %v", ip, mac, macs), err)
	})
	return mac
}

// says waits for an event of a service.
func (a *announcement) says(t *testing.T, name, kind, reason, words string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		list, err := a.env.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range list.Items {
			if e.Type == kind && e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event of %s says %s %q: %q", name, reason, words, said)
	})
}

// TestAnnouncement: a machine of the network without a route finds load balancers at one of
// the nodes by ARP. Another node takes over when one is lost, when it is to keep out, and when
// the endpoints of a service with externalTrafficPolicy Local move. An address that a machine
// has is not taken.
func TestAnnouncement(t *testing.T) {
	t.Parallel()
	c := newCell(t, "announce", 2)
	member := c.join(t, 1, c.argument(t))
	c.ready(t, 2)
	c.awaitAccount(t, "default")
	a := &announcement{cell: c, outside: c.lan.Networks[2]}
	a.client = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DialContext: a.outside.Dial, DisableKeepAlives: true}}
	first, second := hardware(t, c.lan.Networks[0]), hardware(t, c.lan.Networks[1])
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.try(t, "get", "services,pods,events,nodes,plugins", "-A", "-o", "wide").stdout)
		}
	})
	c.web(t, 1)
	c.kubectl(t, "patch", "plugin", "local", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"config":{"addresses":["%s-%s"]}}}`, announcedAt(1), announcedAt(8)))
	make := func(n int, policy string) string {
		ip := announcedAt(n)
		c.apply(t, "default", fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: s%d}, spec: {type: LoadBalancer, loadBalancerIP: %s, externalTrafficPolicy: %s, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}", n, ip, policy))
		return ip
	}

	t.Run("local", func(t *testing.T) { // its endpoints are on one machine, then on the other
		ip := make(1, "Local")
		a.served(t, ip, second)
		a.says(t, "s1", corev1.EventTypeNormal, "AddressAnnounced", "Node "+c.node(1)+" announces "+ip+" on its network")
		c.web(t, 0)
		c.kubectl(t, "delete", "pod", "on-"+c.node(1), "--timeout=110s")
		a.served(t, ip, first)
		c.web(t, 1)
	})

	t.Run("in use", func(t *testing.T) {
		ip := announcedAt(2)
		on := func(f func(netlink.Link, *netlink.Addr) error) {
			t.Helper()
			if err := a.outside.Do(func() error {
				eth, err := netlink.LinkByName("eth0")
				if err != nil {
					return err
				}
				return f(eth, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(32, 32)}})
			}); err != nil {
				t.Fatal(err)
			}
		}
		on(netlink.AddrAdd)
		make(2, "Cluster")
		a.says(t, "s2", corev1.EventTypeWarning, "AddressInUse", "The machine "+hardware(t, a.outside)+" on the network of node ")
		on(netlink.AddrDel)
		a.served(t, ip, first, second)
	})

	var theirs string // an address of the second machine, which both can have
	t.Run("each machine has some", func(t *testing.T) {
		seen := map[string]bool{}
		for n := 3; n <= 8; n++ {
			ip := make(n, "Cluster")
			mac := a.served(t, ip, first, second)
			if seen[mac] = true; mac == second {
				theirs = ip
			}
		}
		if len(seen) != 2 {
			t.Fatalf("all are found at %v", seen)
		}
	})

	t.Run("kept out", func(t *testing.T) {
		const label = corev1.LabelNodeExcludeBalancers
		c.kubectl(t, "label", "node", c.node(1), label+"=")
		a.served(t, theirs, first)
		c.kubectl(t, "label", "node", c.node(1), label+"-")
		a.served(t, theirs, second)
	})

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
		if _, err := found(a.outside, theirs, true); err != nil {
			t.Fatal(err)
		}
		a.served(t, theirs, first)
	})
	c.kubectl(t, "-n", "default", "delete", "service", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "--timeout=110s")
	if mac, err := found(a.outside, theirs, true); err != nil {
		t.Errorf("%s %v", mac, err)
	}
	eventually(t, func(context.Context) error {
		if _, err := a.client.Get("http://" + theirs + "/"); err == nil {
			return errors.New(theirs + " answers without a service")
		}
		mac, err := found(a.outside, theirs, true)
		if err == nil && mac != "" && mac != "00:00:00:00:00:00" {
			err = fmt.Errorf("%s is found at %s", theirs, mac)
		}
		return err
	})
	c.kubectl(t, "delete", "pod", "on-"+c.node(0), "--timeout=110s")
}
