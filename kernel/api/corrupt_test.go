package api_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pintle.dev/pintle/kernel/store"
)

// KEP-3926: objects that cannot be decoded any more are named by reads and lists and can be deleted, by who says that
// he wants just that; an object that can be read cannot be deleted so.
func TestCorruptObjects(t *testing.T) {
	s, st := startOver(t, t.TempDir())
	for _, key := range []string{"/registry/controllerrevisions/damaged/first", "/registry/controllerrevisions/damaged/second"} {
		if _, err := st.Commit(t.Context(), store.Write{Key: key, Value: []byte("k8s\x00\xff\xff"), Expect: store.AnyRevision}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, c := t.Context(), overTLS(t, s)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "damaged"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	revisions := c.AppsV1().ControllerRevisions("damaged")
	if _, err := revisions.Create(ctx, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "good"}, Data: runtime.RawExtension{Raw: []byte("{}")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := revisions.Get(ctx, "first", metav1.GetOptions{}); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "corrupt object") {
		t.Errorf("get: %v", err)
	}
	_, err := revisions.List(ctx, metav1.ListOptions{})
	status, _ := err.(apierrors.APIStatus)
	if !apierrors.IsStoreReadError(err) || len(status.Status().Details.Causes) != 2 ||
		!strings.HasPrefix(err.Error(), "failed to read one or more controllerrevisions.apps from the storage: ") {
		t.Errorf("list: %v", err)
	}
	if err := revisions.Delete(ctx, "first", metav1.DeleteOptions{}); !apierrors.IsInternalError(err) && !apierrors.IsStoreReadError(err) {
		t.Errorf("ordinary delete: %v", err)
	}
	yes := true
	unsafe := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
	if err := revisions.Delete(ctx, "good", unsafe); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "unsafe deletion is not allowed") {
		t.Errorf("unsafe delete of a readable object: %v", err)
	}
	for _, name := range []string{"first", "second"} {
		if err := revisions.Delete(ctx, name, unsafe); err != nil {
			t.Errorf("unsafe delete of %s: %v", name, err)
		}
		if _, err := revisions.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after its unsafe delete: %v", err)
		}
	}
	if list, err := revisions.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) == 0 {
		t.Errorf("list after the unsafe deletes: %v", err)
	}
}

// One damaged object of each kind that the server itself follows does not keep
// it from serving: reads name the object, the others of its kind are there,
// and it can be deleted.
func TestCorruptObjectsAtStart(t *testing.T) {
	dir := t.TempDir()
	keys := []string{
		"customresourcedefinitions/damaged", "namespaces/damaged", "minions/damaged", "serviceaccounts/default/damaged",
		"limitranges/default/damaged", "resourcequotas/default/damaged", "priorityclasses/damaged", "runtimeclasses/damaged",
		"roles/default/damaged", "rolebindings/default/damaged", "clusterroles/damaged", "clusterrolebindings/damaged",
		"services/specs/default/damaged", "pods/default/damaged",
		// Of the system's own, which the start looks for.
		"clusterroles/view", "clusterrolebindings/cluster-admin", "roles/kube-system/system::leader-locking-kube-scheduler",
		"namespaces/kube-public", "priorityclasses/system-node-critical", "services/specs/default/kubernetes", "endpointslices/default/kubernetes",
	}
	t.Run("first", func(t *testing.T) {
		_, st := startOver(t, dir)
		for _, key := range keys {
			key = "/registry/" + strings.Replace(key, "customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions", 1)
			if revision, _ := st.Stat(key); revision == 0 && !strings.HasSuffix(key, "/damaged") {
				t.Fatalf("there is no %s", key)
			}
			if _, err := st.Commit(t.Context(), store.Write{Key: key, Value: []byte("k8s\x00\xff\xff"), Expect: store.AnyRevision}); err != nil {
				t.Fatal(err)
			}
		}
	})
	s := start(t, dir)
	ctx, c := t.Context(), overTLS(t, s)
	if _, err := c.CoreV1().Nodes().Get(ctx, "damaged", metav1.GetOptions{}); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "corrupt object") {
		t.Errorf("get: %v", err)
	}
	if _, err := c.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{}); !apierrors.IsStoreReadError(err) || !strings.Contains(err.Error(), "(and 1 more)") {
		t.Errorf("list: %v", err)
	}
	must(c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}))
	must(c.CoreV1().Pods("default").Create(ctx, pod("p"), metav1.CreateOptions{}))
	must(c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))
	yes := true
	unsafe := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
	for _, name := range []string{"view", "damaged"} {
		if err := c.RbacV1().ClusterRoles().Delete(ctx, name, unsafe); err != nil {
			t.Error(err)
		}
	}
	if list, err := c.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) < 10 {
		t.Errorf("after the deletes: %v", err)
	}
	waitFor(t, func() bool {
		res, err := c.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil && string(res) == "ok"
	})
}
