package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

type options struct {
	test, out, features string
	all                 bool
	limit               time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.test, "test", "", "name of one test to run, such as HTTPRouteWeight; empty: all")
	flag.StringVar(&o.out, "out", "build/gateway-conformance", "folder of the report and the log")
	flag.StringVar(&o.features, "features", "", "features that are tested, with commas between them; empty: those that the GatewayClass says")
	flag.BoolVar(&o.all, "all", false, "run tests too that are left out")
	flag.DurationVar(&o.limit, "limit", 60*time.Minute, "longest that the suite may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "gatewayconformance:", err)
		stop()
		os.Exit(1)
	}
}

// edits make configs/standalone.yaml the suite's: the ports that it asks, and images from a
// folder. Both plugins start with the class that installKinds makes.
func edits(images string) map[string]string {
	return map[string]string{
		"\n  - name: containerd\n":      fmt.Sprintf("\n  - name: containerd\n    config:\n      containerd: {images: %s}\n", images),
		"ingress: {defaultClass: true}": "ingress: {httpAddresses: [\":80\", \":8080\", \":8090\"], secretInterval: 1s}",
	}
}

func writeConfig(dir, images string) (string, error) {
	repo, err := cluster.Repository()
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(repo, "configs", "standalone.yaml"))
	if err != nil {
		return "", err
	}
	text := string(data)
	for from, to := range edits(images) {
		if strings.Count(text, from) != 1 {
			return "", fmt.Errorf("configs/standalone.yaml does not have the lines %q once", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	path := filepath.Join(dir, "standalone.yaml")
	return path, os.WriteFile(path, []byte(text), 0o644)
}

func run(ctx context.Context, o options) (err error) {
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	bin, err := cluster.Bin()
	if err != nil {
		return err
	}
	programs := filepath.Join(bin, "gatewayconformance")
	dir, err := os.MkdirTemp("", "pgc")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	images := filepath.Join(dir, "images")
	if err := errors.Join(os.MkdirAll(images, 0o755), os.MkdirAll(o.out, 0o755)); err != nil {
		return err
	}
	if err := writeImages(bin, filepath.Join(programs, "echo-basic"), images); err != nil {
		return fmt.Errorf("%w; make gateway-conformance builds it", err)
	}
	config, err := writeConfig(dir, images)
	if err != nil {
		return err
	}
	network, err := cluster.NewNetwork()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	c, err := cluster.Start(ctx, cluster.Options{Name: "gatewayconformance", Config: config, Network: network})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(syscall.SIGTERM)) }()
	if err := installKinds(ctx, c, network, bin, dir); err != nil {
		return err
	}
	if o.features == "" {
		said, err := kubectl(ctx, c, network, bin, "get", "gatewayclass", "pintle", "-o", "jsonpath={.status.supportedFeatures[*].name}")
		if err != nil {
			return err
		}
		o.features = strings.Join(append(strings.Fields(said), byConfiguration...), ",")
	}
	return o.ask(ctx, c, network, filepath.Join(programs, "suite.test"))
}

// installKinds returns when the kinds of Gateway API are served.
func installKinds(ctx context.Context, c *cluster.Cluster, n *cluster.Network, bin, dir string) error {
	class := filepath.Join(dir, "class.yaml")
	if err := os.WriteFile(class, []byte("{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: pintle}, spec: {controllerName: pintle.dev/gateway}}\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", filepath.Join(bin, "gateway-api.yaml")},
		{"wait", "--for=condition=Established", "--timeout=110s", "crd", "--all"},
		{"apply", "-f", class},
		{"wait", "--for=condition=Accepted", "--timeout=110s", "gatewayclass/pintle"},
	} {
		_, err := kubectl(ctx, c, n, bin, args...)
		for end := time.Now().Add(time.Minute); err != nil && args[0] == "wait" && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(time.Second) // the class is not made yet
			_, err = kubectl(ctx, c, n, bin, args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func kubectl(ctx context.Context, c *cluster.Cluster, n *cluster.Network, bin string, args ...string) (string, error) {
	cmd := c.Command(ctx, filepath.Join(bin, "pintle"), append([]string{"kubectl"}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := n.Start(cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return said.String(), nil
}

// ask runs the suite within the network of the cluster.
func (o options) ask(ctx context.Context, c *cluster.Cluster, n *cluster.Network, program string) error {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	log, err := os.Create(filepath.Join(o.out, "suite.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{
		"-test.v", "-test.run=TestConformance", "-test.timeout=" + o.limit.String(),
		"-gateway-class=pintle", "-conformance-profiles=" + strings.Join(profiles, ","), "-supported-features=" + o.features,
		"-organization=pintle", "-project=pintle", "-url=https://pintle.dev", "-version=dev", "-contact=none",
		"-report-output=" + filepath.Join(o.out, "report.yaml"),
	}
	if o.test != "" {
		args = append(args, "-run-test="+o.test)
	}
	if len(leftOut) > 0 && !o.all {
		args = append(args, "-skip-tests="+strings.Join(slices.Sorted(maps.Keys(leftOut)), ","))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.Stdout, cmd.Stderr = log, log
	if err := n.Start(cmd); err != nil {
		return err
	}
	failed := cmd.Wait()
	data, err := os.ReadFile(log.Name())
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(data)) {
		result, name, ok := strings.Cut(strings.TrimSpace(line), ": TestConformance/")
		if !ok || !strings.HasPrefix(result, "--- ") || strings.Contains(name, "/") {
			continue
		}
		counts[result[4:]]++
		if result == "--- FAIL" {
			fmt.Println(result[4:], name)
		}
	}
	if o.test == "" && !o.all {
		for _, name := range slices.Sorted(maps.Keys(leftOut)) {
			fmt.Printf("LEFT OUT %s: %s\n", name, leftOut[name])
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped; %s\n", counts["PASS"], counts["FAIL"], counts["SKIP"], log.Name())
	if failed != nil {
		return fmt.Errorf("the suite: %w", failed)
	}
	if counts["PASS"] == 0 {
		return errors.New("no test passed")
	}
	return nil
}
