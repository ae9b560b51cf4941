package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/probe"
)

// hookTimeout bounds an HTTP hook; an exec hook ends with its caller's context.
const hookTimeout = 30 * time.Second

// Run runs one hook. The error's text is the event's message in the kubelet's words.
func Run(ctx context.Context, exec probe.Exec, h *corev1.LifecycleHandler, pod *corev1.Pod, c *corev1.Container, containerID, podIP string) error {
	switch {
	case h.Exec != nil:
		exit, out, err := exec(ctx, containerID, h.Exec.Command, 0)
		if err == nil && exit != 0 {
			err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(h.Exec.Command, " "), exit, "")
		}
		if err != nil {
			return fmt.Errorf("Exec lifecycle hook (%v) for Container %q in Pod %q failed - error: %w, message: %q", //nolint:staticcheck // an event's message
				h.Exec.Command, c.Name, container.Format(pod), err, clip(out))
		}
	case h.HTTPGet != nil:
		if err := get(ctx, h.HTTPGet, c, podIP); err != nil {
			return fmt.Errorf("HTTP lifecycle hook (%s) for Container %q in Pod %q failed - error: %w", h.HTTPGet.Path, c.Name, container.Format(pod), err) //nolint:staticcheck // an event's message
		}
	case h.Sleep != nil:
		t := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return fmt.Errorf("Sleep lifecycle hook (%d) for Container %q in Pod %q failed - error: %w", h.Sleep.Seconds, c.Name, container.Format(pod), //nolint:staticcheck // an event's message
				errors.New("container terminated before sleep hook finished"))
		case <-t.C:
		}
	case h.TCPSocket != nil:
		// Accepted by the API for compatibility; upstream never ran it and fails the hook.
		return fmt.Errorf("Cannot run handler: invalid handler: tcpSocket") //nolint:staticcheck // an event's message
	}
	return nil
}

func get(ctx context.Context, h *corev1.HTTPGetAction, c *corev1.Container, podIP string) error {
	if h.Host == "" && podIP == "" {
		return errors.New("failed to find networking container: the pod has no IP")
	}
	req, err := probe.HTTPRequest(ctx, h, c, podIP)
	if err != nil {
		return err
	}
	client := probe.HTTPClient(ctx, hookTimeout, true)
	resp, err := client.Do(req)
	if err != nil && h.Scheme == corev1.URISchemeHTTPS && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		// Hooks once ignored the scheme; a server that speaks plain HTTP is asked again without credentials.
		req.URL.Scheme = "http"
		req.Header.Del("Authorization")
		resp, err = client.Do(req)
	}
	if err != nil {
		return err
	}
	// Any answer counts, whatever its status code: upstream's behaviour.
	return resp.Body.Close()
}

func clip(out []byte) string {
	const maxOutput = 1024
	if len(out) > maxOutput {
		out = out[:maxOutput]
	}
	return string(out)
}
