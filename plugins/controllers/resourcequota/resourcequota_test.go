package resourcequota

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/sdk/controller"
)

// RQC-11, RQC-12: a status is written at first sight and when usage differs,
// and not again.
func TestSync(t *testing.T) {
	hard := corev1.ResourceList{"pods": resource.MustParse("10"), "secrets": resource.MustParse("5")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "ns"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	client := fake.NewClientset(quota, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns"}})
	q := newController(&controller.Context{
		Logger: slog.New(slog.DiscardHandler), Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
	}, nil, nil)
	defer q.loop.Close()
	add := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	add(q.informer.GetStore().Add(quota))
	add(q.watched["pods"].GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}))
	key := cache.ObjectName{Namespace: "ns", Name: "q"}
	for range 2 {
		client.ClearActions()
		if err := q.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		written, err := client.CoreV1().ResourceQuotas("ns").Get(t.Context(), "q", metav1.GetOptions{})
		add(err)
		if p, s := written.Status.Used["pods"], written.Status.Used["secrets"]; p.Value() != 1 || s.Value() != 1 || len(written.Status.Hard) != 2 {
			t.Fatalf("status %+v", written.Status)
		}
		add(q.informer.GetStore().Update(written))
	}
	for _, a := range client.Actions() {
		if a.GetVerb() == "update" {
			t.Error("written again without a difference")
		}
	}
}
