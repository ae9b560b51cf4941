package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// burst is what the limit of a bandwidth lets through at once, in bytes: containerd asks for the largest that there is.
const burst = 1 << 29

// limits are the rates of the machine's queues that shape, in bits a second, by the kind of interface. Other tests' pods
// come and go meanwhile: a list that the kernel did not finish is an error, as is an interface that went.
func (e *env) limits() (map[string][]uint64, error) {
	found := map[string][]uint64{}
	err := e.Network.Do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			queues, err := netlink.QdiscList(l)
			if err != nil {
				return err
			}
			for _, q := range queues {
				if tbf, ok := q.(*netlink.Tbf); ok {
					found[l.Type()] = append(found[l.Type()], tbf.Rate*8)
				}
			}
		}
		return nil
	})
	return found, err
}

// canShape skips the test where the kernel has no queues or interfaces of the kinds that limits take.
func canShape(t *testing.T) {
	t.Helper()
	own, err := cluster.NewNetwork()
	if err != nil {
		t.Skipf("network namespaces cannot be made: %v", err)
	}
	defer own.Close()
	if err := own.Do(func() error {
		link := &netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "shaped"}}
		if err := netlink.LinkAdd(link); err != nil {
			return fmt.Errorf("module ifb: %w", err)
		}
		queue := netlink.QdiscAttrs{LinkIndex: link.Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)}
		if err := netlink.QdiscAdd(&netlink.Tbf{QdiscAttrs: queue, Rate: 1 << 20, Limit: 1 << 20, Buffer: 1 << 20}); err != nil {
			return fmt.Errorf("module sch_tbf: %w", err)
		}
		return nil
	}); err != nil {
		t.Skipf("the kernel has no means to limit bandwidths: %v", err)
	}
}

// limited is a pod with annotations of bandwidth.
func limited(name, annotations string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {%s}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: %s, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]
---
`, name, annotations, box)
}

// TestBandwidth: annotations limit what a pod receives and sends, as the CNI plugin bandwidth does. A limit that makes no
// sense keeps a pod from starting, and is named. Nothing stays of a pod that went.
func TestBandwidth(t *testing.T) {
	t.Parallel()
	canShape(t)
	e := standalone(t)
	ns := e.namespace(t)
	const mark = 813 // no other test has pods of these rates
	e.apply(t, ns, limited("free", `a: b`)+limited("both", fmt.Sprintf(`kubernetes.io/ingress-bandwidth: %dk, kubernetes.io/egress-bandwidth: 80M`, mark))+
		limited("receives", fmt.Sprintf(`kubernetes.io/ingress-bandwidth: %dM`, mark)))
	e.awaitPod(t, ns, "free", isReady)
	e.awaitPod(t, ns, "receives", isReady)
	both := e.awaitPod(t, ns, "both", isReady)
	eventually(t, func(context.Context) error {
		found, err := e.limits()
		if err != nil {
			return err
		}
		if want := []uint64{mark * 1000, mark * 1000 * 1000}; !slices.Contains(found["veth"], want[0]) || !slices.Contains(found["veth"], want[1]) || !slices.Contains(found["ifb"], 80_000_000) {
			return fmt.Errorf("limits %v, want %v of what pods receive, and 80000000 of what one sends", found, want)
		}
		return nil
	})
	// What goes beyond the burst has the pace of the limit. A machine that is busy is slower, and none is faster.
	const beyond = 40 << 20
	client := &http.Client{Transport: &http.Transport{DialContext: e.Network.Dial}}
	begun := time.Now()
	request, err := http.NewRequestWithContext(bound(t), http.MethodGet, fmt.Sprintf("http://%s:8080/bytes?n=%d", both.Status.PodIP, burst+beyond), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	took := time.Since(begun)
	t.Logf("%d bytes took %s", n, took)
	if least := time.Second * beyond * 8 / 80_000_000; err != nil || n != burst+beyond || took < least/2 {
		t.Errorf("%d bytes took %s, %v; beyond the burst alone takes %s", n, took, err, least)
	}
	for name, tt := range map[string]struct{ annotation, why string }{
		"small":    {`kubernetes.io/egress-bandwidth: "10"`, "resource is unreasonably small (< 1kbit)"},
		"large":    {`kubernetes.io/ingress-bandwidth: 2P`, "resource is unreasonably large (> 1Pbit)"},
		"negative": {`kubernetes.io/ingress-bandwidth: "-1M"`, "resource is unreasonably small (< 1kbit)"},
		"nonsense": {`kubernetes.io/ingress-bandwidth: "1M; rm"`, "quantities must match the regular expression"},
	} {
		e.apply(t, ns, limited(name, tt.annotation))
		eventually(t, func(ctx context.Context) error {
			list, err := e.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
			if err != nil {
				return err
			}
			for _, event := range list.Items {
				if event.Reason == "FailedCreatePodSandBox" && event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, tt.why) {
					return nil
				}
			}
			return fmt.Errorf("pod %s: no event says %q", name, tt.why)
		})
	}
	e.kubectl(t, "-n", ns, "delete", "pod", "--all", "--timeout=110s")
	eventually(t, func(context.Context) error {
		left, err := e.limits()
		if err != nil {
			return err
		}
		if slices.Contains(left["veth"], mark*1000) || slices.Contains(left["ifb"], 80_000_000) {
			return fmt.Errorf("limits of pods that went: %v", left)
		}
		return nil
	})
}
