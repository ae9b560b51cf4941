package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// withdrawing is a provider that takes the address of the service "loses" away, and has
// none for "waits" at this time.
type withdrawing struct{ hostile }

func (w withdrawing) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return w, true }

func (w withdrawing) EnsureLoadBalancer(_ context.Context, _ string, s *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	err := api.NewRetryError("198.51.100.7 is a node's now", time.Hour)
	if s.Name == "loses" {
		return nil, &Withdrawn{Err: err}
	}
	return nil, err
}

// TestWithdrawn: an error leaves the status of a service as it is, one of Withdrawn empties
// it; the controller tells both in events.
func TestWithdrawn(t *testing.T) {
	r := start(t, withdrawing{}, nil, serviceNamed("loses", 80, "198.51.100.7"), serviceNamed("waits", 80, "198.51.100.8"))
	r.eventually(t, func() error {
		events, err := r.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, name := range []string{"loses", "waits"} {
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return e.InvolvedObject.Name == name && e.Reason == "SyncLoadBalancerFailed" && strings.HasSuffix(e.Message, "failed to ensure load balancer: 198.51.100.7 is a node's now")
			}) {
				return fmt.Errorf("no event of %s", name)
			}
		}
		return nil
	})
	if ip, _ := r.address(t, "loses"); ip != "" {
		t.Errorf("loses still has %s", ip)
	}
	if ip, _ := r.address(t, "waits"); ip != "198.51.100.8" {
		t.Errorf("waits has %q", ip)
	}
	var again *api.RetryError
	if err := error(&Withdrawn{Err: api.NewRetryError("x", time.Hour)}); !errors.As(err, &again) || again.RetryAfter() != time.Hour {
		t.Error("the controller does not see when to try again")
	}
}
