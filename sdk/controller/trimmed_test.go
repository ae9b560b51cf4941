package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// podsOnly is an API server with one pod, which lists and watches give.
func podsOnly(t *testing.T) (socket string) {
	t.Helper()
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"one","namespace":"ns","uid":"u","resourceVersion":"5","labels":{"a":"b"},"annotations":{"c":"d"},
		"managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},"spec":{"nodeName":"n","containers":[{"name":"c"}]}}`
	const end = `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}`
	socket = filepath.Join(t.TempDir(), "api")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := req.URL.Query()
		if query.Get("watch") == "" {
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[%s]}`, pod)
			return
		}
		if query.Get("sendInitialEvents") == "true" {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}{"type":"BOOKMARK","object":%s}`, pod, end)
		}
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // until it is closed
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return socket
}

// Objects that controllers share have no managed fields, and all else.
func TestSharedObjectsAreTrimmed(t *testing.T) {
	socket := podsOnly(t)
	found := make(chan *corev1.Pod, 1)
	s := Service(Controller{Name: "one", New: func(c *Context) (Runner, error) {
		pods := c.Informers.Core().V1().Pods()
		synced := pods.Informer().HasSynced
		return RunnerFunc(func(ctx context.Context) error {
			if cache.WaitForCacheSync(ctx.Done(), synced) {
				pod, err := pods.Lister().Pods("ns").Get("one")
				if err != nil {
					t.Error(err)
				}
				found <- pod
			}
			<-ctx.Done()
			return nil
		}), nil
	}}).(*service)
	if _, err := (&server{service: s}).Start(t.Context(), &contractv1.ControllerStart{
		Socket: socket, Controllers: []*contractv1.ControllerSpec{{Name: "one", Socket: socket}},
	}); err != nil {
		t.Fatal(err)
	}
	pod := <-found
	if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if pod == nil || pod.ManagedFields != nil || pod.Labels["a"] != "b" || pod.Annotations["c"] != "d" || pod.Spec.NodeName != "n" || pod.UID != "u" {
		t.Errorf("%+v", pod)
	}
}

func TestTrimmed(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	for _, object := range []any{pod, cache.DeletedFinalStateUnknown{Key: "k", Obj: pod}, "rubbish", nil} {
		if got, err := trimmed(object); err != nil || got != object {
			t.Errorf("%v: %v, %v", object, got, err)
		}
	}
	if pod.ManagedFields != nil || pod.Name != "one" {
		t.Errorf("%+v", pod)
	}
}
