package clusterdns

import (
	"fmt"

	"pintle.dev/pintle/kernel/dualstack"
)

// tenth address of the services' range, as kubeadm has it.
const tenth = 10

// Address is the cluster IP of the DNS in the first range of services, of one or of each IP family.
func Address(serviceCIDR string) (string, error) {
	ranges, err := dualstack.Ranges(serviceCIDR)
	if err != nil {
		return "", fmt.Errorf("cluster DNS: range of services: %w", err)
	}
	p := ranges[0]
	a := p.Addr()
	for range tenth {
		a = a.Next()
	}
	// The last of an IPv4 range is no service's.
	if next := a.Next(); !p.Contains(a) || a.Is4() && !p.Contains(next) {
		return "", fmt.Errorf("cluster DNS: the range of services %s has no tenth address, which the DNS gets; choose a range of at least 16", p)
	}
	return a.String(), nil
}
