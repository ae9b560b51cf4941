package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// hardwareAddress is what a table of neighbours (/proc/net/arp) has for an IP, "" for nothing.
func hardwareAddress(table, ip string) string {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 6 && f[0] == ip {
			return f[3]
		}
	}
	return ""
}

// TestReusedAddress: a pod that only listens is reached at once at an address that was
// another pod's: the node and the pods that spoke with that one remember the new one.
func TestReusedAddress(t *testing.T) {
	t.Parallel()
	e := crashable(t, cluster.Options{Name: "addresses", Config: "configs/standalone.yaml", Set: []string{"node.podCIDR=10.244.0.0/29"}})() // five addresses
	e.awaitAccount(t, "default")
	e.serves(t, "witness", "", "10.244.0.0/29")
	tables := func(ip string) map[string]string {
		node, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/arp", e.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		pod := e.kubectl(t, "exec", "witness", "--", "/box", "cat", "/proc/net/arp")
		return map[string]string{"node": hardwareAddress(string(node), ip), "pod": hardwareAddress(pod, ip)}
	}
	seen := map[string]string{} // address: the pod that had it
	again := ""
	for i := 0; i < 6 && again == ""; i++ {
		name := fmt.Sprint("listens-", i)
		e.apply(t, "default", strings.NewReplacer("NAME", name, "BOX", box).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: BOX, args: [serve]}]
`))
		ip := e.awaitPod(t, "default", name, hasPhase(corev1.PodRunning)).Status.PodIP
		if former, was := seen[ip]; was {
			again = ip
			mac := strings.TrimSpace(e.kubectl(t, "exec", name, "--", "/box", "cat", "/sys/class/net/eth0/address"))
			for who, has := range tables(ip) {
				if has != mac {
					t.Errorf("the %s has %q for %s, which is %s's of %s now; it was %s's", who, has, ip, mac, name, former)
				}
			}
		}
		seen[ip] = name
		eventually(t, func(ctx context.Context) error {
			_, err := e.page(ctx, ip+":8080")
			return err
		})
		e.kubectl(t, "exec", "witness", "--", "/box", "get", "http://"+ip+":8080/healthz")
		for who, has := range tables(ip) {
			if has == "" {
				t.Errorf("the %s has nothing for %s, with which it spoke", who, ip)
			}
		}
		if err := e.client.CoreV1().Pods("default").Delete(bound(t), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(ctx context.Context) error {
			if _, err := e.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("pod %s is there: %v", name, err)
			}
			return nil
		})
	}
	if again == "" {
		t.Errorf("no address came twice: %v", seen)
	}
}
