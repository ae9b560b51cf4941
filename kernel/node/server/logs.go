package server

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/logs"
)

// logOptions reads and checks the parameters of a log request.
func logOptions(q url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	boolean := func(name string, into *bool) error {
		if v := q.Get(name); v != "" {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%s: %q is not true or false", name, v)
			}
			*into = b
		}
		return nil
	}
	number := func(name string, least int64) (*int64, error) {
		v := q.Get(name)
		if v == "" {
			return nil, nil
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least {
			return nil, fmt.Errorf("%s: %q must be a number of at least %d", name, v, least)
		}
		return &n, nil
	}
	for name, into := range map[string]*bool{"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps} {
		if err := boolean(name, into); err != nil {
			return nil, err
		}
	}
	var err error
	if q.Get("tailLines") != "all" {
		if o.TailLines, err = number("tailLines", 0); err != nil {
			return nil, err
		}
	}
	if o.LimitBytes, err = number("limitBytes", 1); err != nil {
		return nil, err
	}
	if o.SinceSeconds, err = number("sinceSeconds", 1); err != nil {
		return nil, err
	}
	if v := q.Get("sinceTime"); v != "" {
		t, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return nil, fmt.Errorf("sinceTime: %q is not a time of RFC 3339", v)
		}
		if o.SinceSeconds != nil {
			return nil, fmt.Errorf("at most one of sinceTime or sinceSeconds may be specified")
		}
		st := metav1.NewTime(t)
		o.SinceTime = &st
	}
	if v := q.Get("stream"); v != "" {
		if v != corev1.LogStreamAll && v != corev1.LogStreamStdout && v != corev1.LogStreamStderr {
			return nil, fmt.Errorf("stream: %q is not All, Stdout or Stderr", v)
		}
		if v != corev1.LogStreamAll && o.TailLines != nil {
			return nil, fmt.Errorf("tailLines and specific stream are mutually exclusive for now")
		}
		o.Stream = &v
	}
	return o, nil
}

// choose finds the container instance whose log is asked for.
func choose(rt *cri.PodStatus, name string, previous bool) *cri.Container {
	var found []*cri.Container
	if rt != nil {
		for _, c := range rt.Containers {
			if c.Name == name {
				found = append(found, c)
			}
		}
	}
	switch {
	case previous && len(found) > 1:
		return found[1]
	case previous && len(found) == 1 && found[0].Exited():
		return found[0]
	case !previous && len(found) > 0:
		return found[0]
	}
	return nil
}

type flushing struct {
	w http.ResponseWriter
	f http.Flusher
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if f.f != nil {
		f.f.Flush()
	}
	return n, err
}

func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	ns, podName, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	o, err := logOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	pod := s.deps.Pods.Find(ns, podName)
	if pod == nil {
		http.Error(w, fmt.Sprintf("pod %q does not exist\n", podName), http.StatusNotFound)
		return
	}
	if container.Find(pod, name) == nil {
		http.Error(w, fmt.Sprintf("container %q not found in pod %q\n", name, podName), http.StatusNotFound)
		return
	}
	rt, err := s.deps.CRI.PodStatus(r.Context(), pod.UID)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ct := choose(rt, name, o.Previous)
	if ct == nil {
		if o.Previous {
			http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", name, podName), http.StatusBadRequest)
			return
		}
		reason := "ContainerCreating"
		if st, ok := s.deps.Status.Get(pod.UID); ok {
			for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
				for i := range list {
					if list[i].Name == name && list[i].State.Waiting != nil && list[i].State.Waiting.Reason != "" {
						reason = list[i].State.Waiting.Reason
					}
				}
			}
		}
		message := "is waiting to start: " + reason
		switch reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull":
			message = "is waiting to start: " + map[string]string{"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image", "ErrImageNeverPull": "image pull policy is Never"}[reason]
		}
		http.Error(w, fmt.Sprintf("container %q in pod %q %s", name, podName, message), http.StatusBadRequest)
		return
	}
	flusher, _ := w.(http.Flusher)
	w.Header().Set("Content-Type", "text/plain")
	// Each piece goes out as it comes: gathered, a short log and its end would reach the reader as one, and the API's
	// WebSocket drops what comes together with the end.
	out := flushing{w, flusher}
	if o.Follow {
		w.WriteHeader(http.StatusOK)
		if flusher != nil {
			flusher.Flush() // the caller sees that following began before there is a line
		}
	}
	var stdout, stderr io.Writer = out, out
	if o.Stream != nil {
		switch *o.Stream {
		case corev1.LogStreamStdout:
			stderr = nil
		case corev1.LogStreamStderr:
			stdout = nil
		}
	}
	if err := logs.Read(r.Context(), s.deps.CRI, ct.LogPath, ct.ID, o, stdout, stderr); err != nil && r.Context().Err() == nil {
		s.deps.Logger.Debug("could not read container log", "pod", ns+"/"+podName, "container", name, "err", err)
		if !o.Follow {
			http.Error(w, fmt.Sprintf("failed to read log of container %q: %v", name, err), http.StatusInternalServerError)
		}
	}
}
