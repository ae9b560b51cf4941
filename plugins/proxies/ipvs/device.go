package ipvs

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// deviceName is the device that has the addresses of services. It is down: addresses of a device
// are the machine's nevertheless.
const deviceName = "pintle-ipvs0"

// device is what the proxy needs of the machine's addresses; tests put a model in its place.
type device interface {
	// ensure makes the device where it is missing.
	ensure() error
	// addresses are those on the device, and those on others, of both families, without
	// those of the loopback and of links.
	addresses() (on, elsewhere map[netip.Addr]bool, err error)
	bind(netip.Addr) error
	unbind(netip.Addr) error
	// remove deletes the device, and reports whether there was one.
	remove() (bool, error)
}

// dummy is the device of the kernel.
type dummy struct{}

// find returns the device; nil: there is none. One of another kind is not ours.
func (dummy) find() (netlink.Link, error) {
	link, err := netlink.LinkByName(deviceName)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for the device %s: %w", deviceName, err)
	case link.Type() != "dummy":
		return nil, fmt.Errorf("the device %s is of the type %s, not dummy: it is not the proxy's; rename or delete it", deviceName, link.Type())
	}
	return link, nil
}

func (d dummy) ensure() error {
	link, err := d.find()
	if link != nil || err != nil {
		return err
	}
	if err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: deviceName}}); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the device %s, which needs the module dummy: %w", deviceName, err)
	}
	return nil
}

func (d dummy) addresses() (on, elsewhere map[netip.Addr]bool, err error) {
	link, err := d.find()
	if err != nil {
		return nil, nil, err
	}
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	on, elsewhere = map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(a.IP)
		if ip = ip.Unmap(); !ok || !ip.IsGlobalUnicast() {
			continue
		}
		if link != nil && a.LinkIndex == link.Attrs().Index {
			on[ip] = true
		} else {
			elsewhere[ip] = true
		}
	}
	return on, elsewhere, nil
}

func (d dummy) bind(a netip.Addr) error {
	link, err := d.find()
	if link == nil || err != nil {
		return errors.Join(fmt.Errorf("bind %s: there is no device %s", a, deviceName), err)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: netlink.NewIPNet(a.AsSlice())}); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("bind %s to %s: %w", a, deviceName, err)
	}
	return nil
}

func (d dummy) unbind(a netip.Addr) error {
	link, err := d.find()
	if link == nil || err != nil {
		return err
	}
	if err := netlink.AddrDel(link, &netlink.Addr{IPNet: netlink.NewIPNet(a.AsSlice())}); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("take %s from %s: %w", a, deviceName, err)
	}
	return nil
}

func (d dummy) remove() (bool, error) {
	link, err := d.find()
	if link == nil || err != nil {
		return false, err
	}
	if err := netlink.LinkDel(link); err != nil {
		return true, fmt.Errorf("delete the device %s: %w", deviceName, err)
	}
	return true, nil
}
