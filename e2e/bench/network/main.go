package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"pintle.dev/pintle/e2e/bench/rig"
)

// options are the command line's.
type options struct {
	out, program                         string
	rounds, services, endpoints, changes int
	alone                                bool
	rows                                 string
}

// rows are what is measured, in this order.
var rows = []string{"sync", "connections", "names", "requests"}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "build/bench", "folder of the JSON file")
	flag.StringVar(&o.program, "proxy", "build/bench-network-proxy", "the program that is measured, of e2e/bench/network/proxy")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each proxy is measured, in turns")
	flag.IntVar(&o.services, "services", 10_000, "services")
	flag.IntVar(&o.endpoints, "endpoints", 2, "endpoints of each service")
	flag.IntVar(&o.changes, "changes", 1000, "changes of one endpoint; a twentieth of them by iptables")
	flag.BoolVar(&o.alone, "alone", false, "leave iptables out")
	flag.StringVar(&o.rows, "rows", strings.Join(rows, ","), "what is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if min(o.rounds, o.services, o.endpoints, o.changes) < 1 {
		return errors.New("rounds and sizes must be at least 1")
	}
	measures := map[string]func(context.Context) ([]rig.Figure, error){
		"sync": o.syncFigures, "connections": o.connectionFigures, "names": o.nameFigures, "requests": o.requestFigures,
	}
	wanted := strings.Split(o.rows, ",")
	for _, row := range wanted {
		if measures[row] == nil {
			return fmt.Errorf("no row %q; there are: %s", row, strings.Join(rows, ", "))
		}
	}
	before := rig.LoadAverage()
	var figures []rig.Figure
	var failed error
	for _, row := range rows {
		if !slices.Contains(wanted, row) {
			continue
		}
		got, err := measures[row](ctx)
		figures, failed = append(figures, got...), errors.Join(failed, err) // the others still tell something
	}
	report := rig.NewReport("network", "service proxies, DNS and ingress, each beside another, in turns", figures, before)
	report.Print(os.Stdout)
	if failed != nil {
		report.Failed = failed.Error()
	}
	return errors.Join(failed, report.Write(o.out))
}
