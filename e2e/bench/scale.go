package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// scaleSizes are the clusters at which the time a pod is measured, as far as
// -scale-nodes lets them grow.
var scaleSizes = []int{500, 1000, 2000, 5000, 10_000, 20_000, 50_000}

// grown is what was measured at one size.
type grown struct {
	nodes   int
	rate    float64 // pods a second, create to bound
	kernel  float64 // processor time of the kernel, us a pod
	decided float64 // time of a decision, us, by the kernel's metrics; 0: they do not say
}

// measureScale lets one kernel grow to 50,000 plain nodes, binds pods of fifty
// shapes at each size, and fills up to 100,000 pods at the last.
func measureScale(ctx context.Context, o options) (_ []figure, err error) {
	dir, err := os.MkdirTemp(o.storeDir, "ptb")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := o.policy()
	if err != nil {
		return nil, err
	}
	c, err := p.pintle(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop(syscall.SIGTERM)) }()
	if err := c.prepare(ctx, measured, there); err != nil {
		return nil, err
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var sizes []grown
	var b *bindings
	nodes, pods := 0, 0
	add := func(size, count int) (grown, error) {
		step("%d nodes: %d pods", size, count)
		g, err := o.grow(ctx, c, client, b, pods, count)
		pods, g.nodes = pods+count, size
		fmt.Printf("    %.0f pods/s; %.0f us of the kernel's processor time a pod, a decision took %.0f us\n", g.rate, g.kernel, g.decided)
		return g, err
	}
	for _, size := range scaleSizes {
		size = min(size, o.scaleNodes)
		if size == nodes {
			break
		}
		if err := createNodes(ctx, client, nodes, size-nodes, "zone-a", "zone-b", "zone-c"); err != nil {
			return nil, err
		}
		if nodes == 0 {
			if err := c.warm(ctx, client); err != nil {
				return nil, err
			}
			if b, err = followBindings(ctx, client); err != nil {
				return nil, err
			}
			defer b.stop()
		}
		nodes = size
		g, err := add(size, o.scaleStep)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, g)
	}
	var figures []figure
	for _, g := range sizes {
		figures = append(figures, middle(fmt.Sprintf("%d nodes: processor time of the kernel a pod", g.nodes), "us", 0, g.kernel).
			note("%d pods in 50 shapes, %.0f pods/s; to decide %.0f us", o.scaleStep, g.rate, g.decided))
	}
	first, last := sizes[0], sizes[len(sizes)-1]
	if len(sizes) > 1 {
		figures = append(figures, middle(fmt.Sprintf("  from %d to %d nodes, %gx", first.nodes, last.nodes, float64(last.nodes)/float64(first.nodes)), "x", 0, last.kernel/first.kernel).
			note("time of a decision %.1fx", last.decided/first.decided))
	}
	if rest := o.scalePods - pods; rest > 0 {
		done := o.startProfile(c.cfg, "scale")
		g, err := add(nodes, rest)
		if err != nil {
			return nil, err
		}
		done()
		figures = append(figures, least(fmt.Sprintf("%d nodes, %d pods: create to bound", nodes, o.scalePods), "pods/s", 0, g.rate).note("the last %d; %s", rest, p.name),
			middle("  processor time of the kernel a pod", "us", 0, g.kernel))
	}
	rss, anonymous, err := c.memory()
	if err != nil {
		return nil, err
	}
	figures = append(figures, middle("  resident memory with all of them, at once", "MB", 0, mb(rss)).note("anonymous %.0f", mb(anonymous)))
	step("waiting %s, then weighing", idleFor)
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if rss, anonymous, err = c.memory(); err != nil {
		return nil, err
	}
	figures = append(figures, middle("  resident memory at rest", "MB", 0, mb(rss)).note("anonymous %.0f; after %s", mb(anonymous), idleFor))
	if err := checkPlaced(ctx, client, pods, nil); err != nil {
		return nil, err
	}
	return figures, growthChart(filepath.Join(o.out, "scale.svg"), sizes)
}

// grow binds more pods, in fifty shapes that are new to the scheduler.
func (o options) grow(ctx context.Context, c *contender, client kubernetes.Interface, b *bindings, before, count int) (g grown, err error) {
	decided, _, err := decisions(ctx, c)
	if err != nil {
		return g, err
	}
	used, begin := c.processorTime(), time.Now()
	err = createAll(ctx, client, measured, count, o.workers, func(i int) *corev1.Pod {
		p := manyShapes(i)
		p.Name = fmt.Sprintf("pod-%d", before+i)
		p.Labels["app"] += fmt.Sprintf("-%d", before)
		for name, room := range p.Spec.Containers[0].Resources.Requests {
			// Twenty of the largest fit on a node of the smallest cluster.
			if name == corev1.ResourceCPU {
				room.SetMilli(int64(10 + i%50))
				p.Spec.Containers[0].Resources.Requests[name] = room
			}
		}
		return p
	})
	if err != nil {
		return g, err
	}
	if err := b.await(ctx, before+count); err != nil {
		return g, err
	}
	g.rate = float64(count) / time.Since(begin).Seconds()
	g.kernel = float64((c.processorTime() - used).Microseconds()) / float64(count)
	if after, n, err := decisions(ctx, c); err == nil && n > 0 {
		g.decided = float64((after - decided).Microseconds()) / float64(count)
	}
	return g, nil
}

// decisions is the time that was spent in scheduling algorithms so far, and how
// often, as the server's metrics tell.
func decisions(ctx context.Context, s *contender) (sum time.Duration, count int, err error) {
	client, err := s.httpClient()
	if err != nil {
		return 0, 0, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.Host+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			continue
		}
		v, _ := strconv.ParseFloat(fields[1], 64)
		switch name, _, _ := strings.Cut(fields[0], "{"); name {
		case "scheduler_scheduling_algorithm_duration_seconds_sum":
			sum += time.Duration(v * float64(time.Second))
		case "scheduler_scheduling_algorithm_duration_seconds_count":
			count += int(v)
		}
	}
	return sum, count, lines.Err()
}

// growthChart draws the time a pod over the nodes, beside what linear growth
// from the smallest would be; both axes are logarithmic.
func growthChart(file string, sizes []grown) error {
	const left, width, height, top = 80, chartWidth - 300, 360, 60
	if len(sizes) < 2 {
		return nil
	}
	first, last := sizes[0], sizes[len(sizes)-1]
	lowest, highest := first.kernel, first.kernel*float64(last.nodes)/float64(first.nodes)
	for _, g := range sizes {
		highest = max(highest, g.kernel)
		for _, v := range []float64{g.kernel, g.decided} {
			if v > 0 {
				lowest = min(lowest, v)
			}
		}
	}
	x := func(nodes int) float64 {
		return left + width*math.Log(float64(nodes)/float64(first.nodes))/math.Log(float64(last.nodes)/float64(first.nodes))
	}
	y := func(us float64) float64 {
		return top + height*(1-math.Log(max(us, lowest)/lowest)/math.Log(highest/lowest))
	}
	var body strings.Builder
	for _, g := range sizes {
		fmt.Fprintf(&body, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\">%d</text>\n", x(g.nodes), x(g.nodes), top, top+height, x(g.nodes)-14, top+height+18, g.nodes)
	}
	for v := math.Pow(10, math.Ceil(math.Log10(lowest))); v <= highest; v *= 10 {
		fmt.Fprintf(&body, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"16\" y=\"%.1f\">%g us</text>\n", left, left+width, y(v), y(v), y(v)+4, v)
	}
	series := []struct {
		name, colour, dash string
		of                 func(grown) float64
	}{
		{"processor time of the kernel a pod", "#2a6fbb", "", func(g grown) float64 { return g.kernel }},
		{"time of a decision", "#c60", "", func(g grown) float64 { return g.decided }},
		{"linear growth of the first", "#999", "6 4", func(g grown) float64 { return first.kernel * float64(g.nodes) / float64(first.nodes) }},
	}
	for i, one := range series {
		var points []string
		for _, g := range sizes {
			if v := one.of(g); v > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(g.nodes), y(v)))
			}
		}
		if len(points) == 0 {
			continue
		}
		fmt.Fprintf(&body, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"%s\" points=\"%s\"/>\n", one.colour, one.dash, strings.Join(points, " "))
		fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left+width+16, top+20+20*i, one.colour, html.EscapeString(one.name))
	}
	return writeChart(file, "Time a pod, from create to bound, by nodes of the cluster", top+height+40, body.String())
}
