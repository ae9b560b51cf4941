package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// portals lead traffic for a service's addresses to its listening socket.
type portals interface {
	// host and port say where to listen for traffic to ip:number; port 0 is a
	// free one.
	listenAt(ip string, number int) (host string, port int)
	// open leads ip:number to the socket's port; close undoes it.
	open(ctx context.Context, p *serviceport.Port, ip string, proxyPort int) error
	close(ctx context.Context, p *serviceport.Port, ip string, proxyPort int) error
	// prepare runs once at start, cleanup at the end.
	prepare(ctx context.Context) error
	cleanup(ctx context.Context) error
	String() string
}

// choosePortals takes the best way in that this machine allows.
func choosePortals(hostIP string) portals {
	if os.Geteuid() != 0 {
		return noPortals{}
	}
	if _, err := exec.LookPath("iptables"); err == nil {
		return &chainPortals{hostIP: hostIP}
	}
	return &addressPortals{}
}

// noPortals: without root no address and no rule can be added.
type noPortals struct{}

func (noPortals) listenAt(string, int) (string, int)                          { return "127.0.0.1", 0 }
func (noPortals) open(context.Context, *serviceport.Port, string, int) error  { return nil }
func (noPortals) close(context.Context, *serviceport.Port, string, int) error { return nil }
func (noPortals) prepare(context.Context) error                               { return nil }
func (noPortals) cleanup(context.Context) error                               { return nil }
func (noPortals) String() string {
	return "node ports only: cluster IPs need root"
}

// chainPortals are rules in table nat (requirements PUS-9, PUS-10).
type chainPortals struct{ hostIP string }

const (
	containerChain = "KUBE-PORTALS-CONTAINER" // traffic that comes from containers
	hostChain      = "KUBE-PORTALS-HOST"      // traffic that this host makes
)

func (c *chainPortals) String() string { return "chains " + containerChain + " and " + hostChain }

func (*chainPortals) listenAt(string, int) (string, int) { return "0.0.0.0", 0 }

func iptables(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w", "5", "-t", "nat"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (c *chainPortals) jumps() [][]string {
	rule := func(chain, comment, target string) []string {
		return []string{chain, "-m", "comment", "--comment", comment, "-j", target}
	}
	return [][]string{
		rule("PREROUTING", "handle ClusterIPs; NOTE: this must be before the NodePort rules", containerChain),
		rule("OUTPUT", "handle ClusterIPs; NOTE: this must be before the NodePort rules", hostChain),
	}
}

func (c *chainPortals) prepare(ctx context.Context) error {
	for _, chain := range []string{containerChain, hostChain} {
		if iptables(ctx, "-S", chain) != nil {
			if err := iptables(ctx, "-N", chain); err != nil {
				return err
			}
		}
		// What an earlier run left leads to ports that nobody listens on.
		if err := iptables(ctx, "-F", chain); err != nil {
			return err
		}
	}
	for _, j := range c.jumps() {
		if iptables(ctx, append([]string{"-C"}, j...)...) != nil {
			if err := iptables(ctx, append([]string{"-I"}, j...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *chainPortals) rules(p *serviceport.Port, ip string, proxyPort int) [][]string {
	proto := strings.ToLower(p.Protocol)
	match := []string{"-m", "comment", "--comment", p.ID.String(), "-p", proto, "-m", proto, "-d", ip + "/32", "--dport", fmt.Sprint(p.Number)}
	return [][]string{
		slices.Concat([]string{containerChain}, match, []string{"-j", "REDIRECT", "--to-ports", fmt.Sprint(proxyPort)}),
		slices.Concat([]string{hostChain}, match, []string{"-j", "DNAT", "--to-destination", net.JoinHostPort(c.hostIP, fmt.Sprint(proxyPort))}),
	}
}

func (c *chainPortals) open(ctx context.Context, p *serviceport.Port, ip string, proxyPort int) error {
	for _, r := range c.rules(p, ip, proxyPort) {
		if err := iptables(ctx, append([]string{"-A"}, r...)...); err != nil {
			return err
		}
	}
	return nil
}

func (c *chainPortals) close(ctx context.Context, p *serviceport.Port, ip string, proxyPort int) error {
	var errs []error
	for _, r := range c.rules(p, ip, proxyPort) {
		errs = append(errs, iptables(ctx, append([]string{"-D"}, r...)...))
	}
	return errors.Join(errs...)
}

func (c *chainPortals) cleanup(ctx context.Context) error {
	var errs []error
	for _, j := range c.jumps() {
		for iptables(ctx, append([]string{"-C"}, j...)...) == nil {
			if err := iptables(ctx, append([]string{"-D"}, j...)...); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	for _, chain := range []string{containerChain, hostChain} {
		if iptables(ctx, "-S", chain) == nil {
			errs = append(errs, iptables(ctx, "-F", chain), iptables(ctx, "-X", chain))
		}
	}
	return errors.Join(errs...)
}

// addressPortals put the service's addresses on an interface of their own and
// listen there: for machines without the iptables tools.
type addressPortals struct{ users map[string]int }

const addressLink = "pintle-svc"

func (*addressPortals) String() string { return "addresses on interface " + addressLink }

func (*addressPortals) listenAt(ip string, number int) (string, int) { return ip, number }

func (a *addressPortals) prepare(ctx context.Context) error {
	if err := a.cleanup(ctx); err != nil { // what an earlier run left
		return err
	}
	a.users = map[string]int{}
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: addressLink}}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("add interface %s: %w", addressLink, err)
	}
	return netlink.LinkSetUp(link)
}

// claim adds the address; it must happen before the socket listens.
func (a *addressPortals) claim(ip string) error {
	a.users[ip]++
	if a.users[ip] > 1 {
		return nil
	}
	link, err := netlink.LinkByName(addressLink)
	if err == nil {
		var addr *netlink.Addr
		if addr, err = netlink.ParseAddr(ip + "/32"); err == nil {
			err = netlink.AddrReplace(link, addr)
		}
	}
	if err != nil {
		a.users[ip]--
		return fmt.Errorf("add address %s: %w", ip, err)
	}
	return nil
}

func (*addressPortals) open(context.Context, *serviceport.Port, string, int) error { return nil }

func (a *addressPortals) close(_ context.Context, _ *serviceport.Port, ip string, _ int) error {
	a.users[ip]--
	if a.users[ip] > 0 {
		return nil
	}
	delete(a.users, ip)
	link, err := netlink.LinkByName(addressLink)
	if err != nil {
		return fmt.Errorf("remove address %s: %w", ip, err)
	}
	addr, err := netlink.ParseAddr(ip + "/32")
	if err != nil {
		return err
	}
	return netlink.AddrDel(link, addr)
}

func (*addressPortals) cleanup(context.Context) error {
	link, err := netlink.LinkByName(addressLink)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
