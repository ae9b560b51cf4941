package clusterdns

import (
	"fmt"
	"net/netip"
)

// tenth address of the services' range, as kubeadm has it.
const tenth = 10

// Address is the cluster IP of the DNS in a range of services.
func Address(serviceCIDR string) (string, error) {
	p, err := netip.ParsePrefix(serviceCIDR)
	if err != nil {
		return "", fmt.Errorf("cluster DNS: range of services: %w", err)
	}
	a := p.Masked().Addr()
	for range tenth {
		a = a.Next()
	}
	// The last of an IPv4 range is no service's.
	if next := a.Next(); !p.Contains(a) || a.Is4() && !p.Contains(next) {
		return "", fmt.Errorf("cluster DNS: the range of services %s has no tenth address, which the DNS gets; choose a range of at least 16", serviceCIDR)
	}
	return a.String(), nil
}
