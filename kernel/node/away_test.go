package node

import (
	"errors"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestAPIAway: the only container of a pod is started again while the API does not answer, with the files that the pod
// has, though its token has ended. What the API refuses keeps it from starting, as it does upstream.
func TestAPIAway(t *testing.T) {
	w := newWorld(t, nil)
	const answers, away, refuses = 0, 1, 2
	var api atomic.Int32
	w.client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "token" {
			return false, nil, nil
		}
		switch api.Load() {
		case away:
			return true, nil, &url.Error{Op: "Post", URL: "https://192.0.2.1", Err: errors.New("connection refused")}
		case refuses:
			return true, nil, apierrors.NewForbidden(corev1.Resource("serviceaccounts/token"), "default", errors.New("not this node"))
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: metav1.Time{Time: time.Now()}}}, nil
	})
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = "default"
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}))
	w.eventually("runs", func() bool { return w.phase("p") == corev1.PodRunning })
	ends := func() (id string) {
		id = w.runtime.Find("p", "main").ID
		w.runtime.Exit(id, 1)
		return id
	}
	api.Store(away)
	first := ends()
	w.eventually("runs again without the API", func() bool {
		c := w.runtime.Find("p", "main")
		return c != nil && c.ID != first && w.runtime.Running("p", "main")
	})
	api.Store(refuses)
	ends()
	w.eventually("says why it does not", func() bool { return w.hasEvent("not this node") })
	if w.runtime.Running("p", "main") {
		t.Error("it runs with what the API refuses")
	}
	api.Store(answers)
	w.eventually("runs again", func() bool { return w.runtime.Running("p", "main") })
}
