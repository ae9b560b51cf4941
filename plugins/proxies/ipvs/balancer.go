package ipvs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// balancer is what the proxy needs of IPVS; tests put a model in its place. Virtual servers and
// real ones are of the family of the call.
type balancer interface {
	list(f *family) (map[server]virtual, error)
	real(f *family, s server) (map[netip.AddrPort]backend, error)
	// set makes a virtual server, or changes one.
	set(f *family, s server, v virtual, anew bool) error
	remove(f *family, s server) error
	// setReal makes a real server, or changes its weight.
	setReal(f *family, s server, to netip.AddrPort, weight int, anew bool) error
	removeReal(f *family, s server, to netip.AddrPort) error
	timeouts() (timeouts, error)
	setTimeouts(timeouts) error
	close()
}

// timeouts are how long IPVS keeps idle connections; 0 leaves one as it is.
type timeouts struct{ tcp, tcpFin, udp time.Duration }

// backend is a real server as the kernel has it.
type backend struct{ weight, connections int }

// Flags of virtual servers.
const (
	flagPersistent = 0x1
	flagHashed     = 0x2  // the kernel's own
	flagSHFallback = 0x8  // the scheduler sh takes another where the one of a client is to go
	flagMHPort     = 0x10 // the scheduler mh looks at the source port, too
)

// errNoIPVS says what is missing on this machine.
var errNoIPVS = errors.New("the kernel has no IPVS: it needs the module ip_vs (modprobe ip_vs)")

// available returns why the kernel has no IPVS, if so. It asks for the module.
func available() error {
	if _, err := netlink.GenlFamilyGet("IPVS"); err == nil {
		return nil
	}
	out, err := exec.Command("modprobe", "ip_vs").CombinedOutput()
	if _, missing := netlink.GenlFamilyGet("IPVS"); missing == nil {
		return nil
	}
	return errors.Join(errNoIPVS, err, said(out))
}

func said(out []byte) error {
	if text := strings.TrimSpace(string(out)); text != "" {
		return errors.New(text)
	}
	return nil
}

// kernelIPVS is IPVS of the kernel.
type kernelIPVS struct{ handle *ipvs.Handle }

// openIPVS opens a socket. The library learns the number of IPVS once in the life of a process,
// so that it is not called before the kernel has it.
func openIPVS() (balancer, error) {
	if err := available(); err != nil {
		return nil, err
	}
	h, err := ipvs.New("")
	if err != nil {
		return nil, fmt.Errorf("open a socket of IPVS: %w", err)
	}
	return kernelIPVS{h}, nil
}

func (k kernelIPVS) close() { k.handle.Close() }

func (f *family) afNumber() uint16 {
	if f == ipv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// service is a virtual server as the library has it.
func (f *family) service(s server, v virtual) *ipvs.Service {
	out := &ipvs.Service{AddressFamily: f.afNumber(), FWMark: s.mark, SchedName: v.scheduler, Netmask: 0xffffffff}
	if f == ipv6 {
		out.Netmask = 128
	}
	if s.mark == 0 {
		out.Address, out.Protocol, out.Port = s.address.AsSlice(), uint16(s.protocol), s.port
	}
	if v.sticky > 0 {
		out.Flags, out.Timeout = flagPersistent, v.sticky
	}
	switch {
	case v.scheduler == "mh":
		out.Flags |= flagMHPort
	case v.scheduler == "sh" && s.mark != 0:
		out.Flags |= flagSHFallback
	}
	return out
}

// name is a virtual server in errors.
func (s server) String() string {
	if s.mark != 0 {
		return fmt.Sprintf("virtual server of mark %#x", s.mark)
	}
	return fmt.Sprintf("virtual server %s of protocol %d", netip.AddrPortFrom(s.address, s.port), s.protocol)
}

func (k kernelIPVS) list(f *family) (map[server]virtual, error) {
	list, err := k.handle.GetServices()
	if err != nil {
		return nil, fmt.Errorf("list virtual servers: %w", err)
	}
	out := map[server]virtual{}
	for _, s := range list {
		if s.AddressFamily != f.afNumber() {
			continue
		}
		id := server{mark: s.FWMark}
		if s.FWMark == 0 {
			a, ok := netip.AddrFromSlice(s.Address)
			if !ok {
				continue
			}
			id.front = front{a.Unmap(), uint8(s.Protocol), s.Port}
		}
		v := virtual{scheduler: s.SchedName}
		if s.Flags&flagPersistent != 0 {
			v.sticky = s.Timeout
		}
		if want := f.service(id, v).Flags; s.Flags&^flagHashed != want {
			v.scheduler = "" // one of ours is other; it is set anew
		}
		out[id] = v
	}
	return out, nil
}

func (k kernelIPVS) real(f *family, s server) (map[netip.AddrPort]backend, error) {
	list, err := k.handle.GetDestinations(f.service(s, virtual{}))
	if err != nil {
		return nil, fmt.Errorf("list real servers of the %s: %w", s, err)
	}
	out := map[netip.AddrPort]backend{}
	for _, d := range list {
		if a, ok := netip.AddrFromSlice(d.Address); ok {
			out[netip.AddrPortFrom(a.Unmap(), d.Port)] = backend{d.Weight, d.ActiveConnections + d.InactiveConnections}
		}
	}
	return out, nil
}

func (k kernelIPVS) set(f *family, s server, v virtual, anew bool) error {
	do, what := k.handle.UpdateService, "change"
	if anew {
		do, what = k.handle.NewService, "make"
	}
	err := do(f.service(s, v))
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s the %s: the kernel has no scheduler %s; it needs the module ip_vs_%s: %w", what, s, v.scheduler, v.scheduler, err)
	}
	if err != nil {
		return fmt.Errorf("%s the %s: %w", what, s, err)
	}
	return nil
}

func (k kernelIPVS) remove(f *family, s server) error {
	if err := k.handle.DelService(f.service(s, virtual{})); err != nil && !gone(err) {
		return fmt.Errorf("delete the %s: %w", s, err)
	}
	return nil
}

// gone reports that what was to be deleted is not there.
func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) }

func destination(to netip.AddrPort, weight int) *ipvs.Destination {
	return &ipvs.Destination{Address: net.IP(to.Addr().AsSlice()), Port: to.Port(), Weight: weight}
}

func (k kernelIPVS) setReal(f *family, s server, to netip.AddrPort, weight int, anew bool) error {
	do := k.handle.UpdateDestination
	if anew {
		do = k.handle.NewDestination
	}
	if err := do(f.service(s, virtual{}), destination(to, weight)); err != nil {
		return fmt.Errorf("give the %s the real server %s of weight %d: %w", s, to, weight, err)
	}
	return nil
}

func (k kernelIPVS) removeReal(f *family, s server, to netip.AddrPort) error {
	if err := k.handle.DelDestination(f.service(s, virtual{}), destination(to, 0)); err != nil && !gone(err) {
		return fmt.Errorf("take the real server %s from the %s: %w", to, s, err)
	}
	return nil
}

func (k kernelIPVS) timeouts() (timeouts, error) {
	c, err := k.handle.GetConfig()
	if err != nil {
		return timeouts{}, fmt.Errorf("read the timeouts of IPVS: %w", err)
	}
	return timeouts{c.TimeoutTCP, c.TimeoutTCPFin, c.TimeoutUDP}, nil
}

func (k kernelIPVS) setTimeouts(t timeouts) error {
	if err := k.handle.SetConfig(&ipvs.Config{TimeoutTCP: t.tcp, TimeoutTCPFin: t.tcpFin, TimeoutUDP: t.udp}); err != nil {
		return fmt.Errorf("set the timeouts of IPVS: %w", err)
	}
	return nil
}
