package api_test

import (
	"os"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestIdentityLease: a server that runs has a Lease, which an orderly stop takes away.
func TestIdentityLease(t *testing.T) {
	dir := t.TempDir()
	the := func(t *testing.T, c kubernetes.Interface) coordinationv1.Lease {
		var list *coordinationv1.LeaseList
		waitFor(t, func() bool {
			var err error
			list, err = c.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity=kube-apiserver"})
			return err == nil && len(list.Items) == 1
		})
		return list.Items[0]
	}
	var first coordinationv1.Lease
	t.Run("runs", func(t *testing.T) {
		first = the(t, overTLS(t, start(t, dir)))
		host, _ := os.Hostname()
		if !strings.HasPrefix(first.Name, "apiserver-") || first.Labels["kubernetes.io/hostname"] != host || *first.Spec.LeaseDurationSeconds != 3600 {
			t.Errorf("%+v", first)
		}
	})
	t.Run("runs again", func(t *testing.T) {
		second := the(t, overTLS(t, start(t, dir)))
		if second.Name != first.Name || *second.Spec.HolderIdentity == *first.Spec.HolderIdentity {
			t.Errorf("%+v", second)
		}
		if second.UID == first.UID {
			t.Error("the lease stayed after an orderly stop")
		}
	})
}
