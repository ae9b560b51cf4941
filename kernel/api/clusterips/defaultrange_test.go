package clusterips

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestEnsureDefault: a cluster that gets a second IP family has its range in the ServiceCIDR of the first. Another range is
// left as it is, and named.
func TestEnsureDefault(t *testing.T) {
	for name, tt := range map[string]struct {
		have, configured, want []string
		said                   bool
	}{
		"none":                   {nil, []string{"10.96.0.0/16"}, []string{"10.96.0.0/16"}, false},
		"both at once":           {nil, []string{"fd00::/112", "10.96.0.0/16"}, []string{"fd00::/112", "10.96.0.0/16"}, false},
		"the second comes":       {[]string{"10.96.0.0/16"}, []string{"10.96.0.0/16", "fd00::/112"}, []string{"10.96.0.0/16", "fd00::/112"}, false},
		"another comes first":    {[]string{"10.96.0.0/16"}, []string{"fd00::/112", "10.96.0.0/16"}, []string{"10.96.0.0/16"}, true},
		"the second goes":        {[]string{"10.96.0.0/16", "fd00::/112"}, []string{"10.96.0.0/16"}, []string{"10.96.0.0/16", "fd00::/112"}, true},
		"another range":          {[]string{"10.97.0.0/16"}, []string{"10.96.0.0/16"}, []string{"10.97.0.0/16"}, true},
		"another, and a second":  {[]string{"10.97.0.0/16"}, []string{"10.96.0.0/16", "fd00::/112"}, []string{"10.97.0.0/16"}, true},
		"another second of both": {[]string{"10.96.0.0/16", "fd01::/112"}, []string{"10.96.0.0/16", "fd00::/112"}, []string{"10.96.0.0/16", "fd01::/112"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset().NetworkingV1().ServiceCIDRs()
			if tt.have != nil {
				if _, err := client.Create(t.Context(), &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: Default}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: tt.have}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			for range 2 {
				if err := EnsureDefault(t.Context(), client, tt.configured, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
					t.Fatal(err)
				}
			}
			got, err := client.Get(t.Context(), Default, metav1.GetOptions{})
			if err != nil || !slices.Equal(got.Spec.CIDRs, tt.want) {
				t.Errorf("%v, %v", got.Spec.CIDRs, err)
			}
			if said := strings.Contains(log.String(), "which differs"); said != tt.said {
				t.Errorf("log: %s", log.String())
			}
			if ready := len(got.Status.Conditions) == 1 && got.Status.Conditions[0].Status == metav1.ConditionTrue; ready == tt.said {
				t.Errorf("conditions %v", got.Status.Conditions)
			}
		})
	}
}
