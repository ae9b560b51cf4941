package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

const (
	goalMemory = 200 // MB
	// idleFor is how long a cluster is left alone before it is weighed: start
	// work is over, the collector has run by itself, and plugins that end when
	// they are not used have ended (two minutes both at most).
	idleFor = 160 * time.Second
)

// memory weighs the kernel and every plugin process of the standalone
// configuration with its node, when nothing is asked of it.
func memory(ctx context.Context, opt options) (_ []figure, err error) {
	o := cluster.Options{Name: "bench-memory", Config: "configs/standalone.yaml"}
	note := "with the node agent"
	if n, err := cluster.NewNetwork(); err == nil {
		o.Network = n
		defer n.Close()
	} else {
		o.Set, note = []string{"node.enabled=false"}, "without a node: "+err.Error()
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop(syscall.SIGTERM)) }()
	select {
	case <-time.After(idleFor):
	case <-c.Exited():
		return nil, fmt.Errorf("the cluster ended by itself: %w", c.Err())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list, err := weigh(c.Pid())
	if err != nil {
		return nil, err
	}
	if _, cfg, err := c.Client(); err == nil && opt.profile != "" {
		fetchProfile(cfg, "/debug/pprof/heap", filepath.Join(opt.profile, "memory.heap"), 0)
	}
	var rss, pss, anonymous float64
	var figures []figure
	for _, p := range list {
		rss, pss, anonymous = rss+p.RSS, pss+p.PSS, anonymous+p.Anonymous
		figures = append(figures, most("  "+p.Name, "MB", 0, mb(p.PSS)).With("anonymous %.0f", mb(p.Anonymous)))
	}
	return append([]figure{
		most("memory of kernel and plugins, shared pages once", "MB", goalMemory, mb(pss)).With("%d processes, %s, %s idle", len(list), note, idleFor),
		most("  of it anonymous (the rest are files)", "MB", 0, mb(anonymous)),
		most("  resident in each process, summed up", "MB", 0, mb(rss)),
	}, figures...), nil
}
