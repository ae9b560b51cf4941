package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PodRange holds the pods of both machines of a Pair, and those of the one machine of
// the shipped configurations.
const PodRange = "10.244.0.0/16"

// machines are those of a Pair: what of a kernel's settings differs.
var machines = [2]struct{ ip, podCIDR, cgroupRoot string }{
	{NodeIP, "10.244.0.0/24", "/"},
	{NeighbourIP, "10.244.1.0/24", "/pintle-neighbour"}, // the machine has one tree of cgroups
}

// Pair is what two kernels with a real node each share: networks that a cable joins, and one
// etcd, which the first machine runs.
type Pair struct {
	Networks [2]*Network
	Etcd     *Etcd

	dir string // of etcd and the cluster's key
}

// NewPair makes the networks and starts etcd. The error is ErrNoEtcd where that was not
// built. Close ends it, after the clusters in it.
func NewPair(ctx context.Context) (_ *Pair, err error) {
	p := &Pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.Networks[0], err = NewNetwork(); err != nil {
		return nil, err
	}
	if p.Networks[1], err = NewNeighbour(p.Networks[0]); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "ptp"); err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.key(), []byte(strings.Repeat("secret of the tests ", 2)), 0o600); err != nil {
		return nil, err
	}
	p.Etcd, err = startEtcd(ctx, p.Networks[0], NodeIP, filepath.Join(p.dir, "etcd"), false, nil)
	return p, err
}

func (p *Pair) key() string { return filepath.Join(p.dir, "cluster.key") }

// NodeName is that of a machine's node: the first is 0, the second 1.
func (p *Pair) NodeName(machine int) string { return fmt.Sprintf("node-%d", machine+1) }

// Options are o for a kernel of a machine.
func (p *Pair) Options(machine int, o Options) Options {
	m := machines[machine]
	o.Network, o.Etcd, o.Node = p.Networks[machine], p.Etcd, p.NodeName(machine)
	o.Set = append([]string{
		"store.backend=etcd", "store.etcd.servers=[" + p.Etcd.URL + "]", "store.etcd.clusterKeyFile=" + p.key(),
		"node.podCIDR=" + m.podCIDR, "node.network=bridge", "node.clusterCIDRs=[" + PodRange + "]", "node.cgroupRoot=" + m.cgroupRoot,
	}, o.Set...)
	return o
}

// Close ends what the clusters shared.
func (p *Pair) Close() error {
	if p.Etcd != nil {
		p.Etcd.Stop()
	}
	var errs []error
	for _, n := range p.Networks {
		errs = append(errs, n.Close())
	}
	if p.dir != "" {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}
