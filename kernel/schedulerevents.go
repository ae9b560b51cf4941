package kernel

import (
	"context"
	"encoding/json"
	"log/slog"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/recorder"
	"pintle.dev/pintle/kernel/scheduler"
)

// schedulerEvents records in the name of each profile.
type schedulerEvents struct {
	*recorder.Controller // of pods that no profile is of
	recorder             *recorder.Recorder
}

func (e schedulerEvents) Of(profile string) scheduler.Recorder { return e.recorder.For(profile) }

func newSchedulerEvents(server *api.Server, client kubernetes.Interface, metrics *recorder.Metrics, log *slog.Logger) (schedulerEvents, error) {
	r, err := recorder.New(recorder.Config{Once: []string{scheduler.ReasonScheduled}}, recorder.Deps{
		Sink: eventSink{server, client}, Scheme: scheme.Scheme, Log: log, Metrics: metrics,
	})
	if err != nil {
		return schedulerEvents{}, err
	}
	return schedulerEvents{r.For("default-scheduler"), r}, nil
}

// eventSink writes new events without HTTP: they are as many as bindings.
type eventSink struct {
	server *api.Server
	client kubernetes.Interface
}

func (s eventSink) Create(ctx context.Context, events []*eventsv1.Event) []error {
	return s.server.CreateEvents(ctx, schedulerIdentity, events)
}

func (s eventSink) SetSeries(ctx context.Context, namespace, name string, series *eventsv1.EventSeries) error {
	patch, err := json.Marshal(map[string]any{"series": series})
	if err != nil {
		return err
	}
	_, err = s.client.EventsV1().Events(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
