package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/image/pullrecord"
)

// Reason is why a container waits for its image; its text is the waiting state's reason.
type Reason string

// The reasons.
const (
	ReasonBackOff     Reason = "ImagePullBackOff"
	ReasonPull        Reason = "ErrImagePull"
	ReasonNeverPull   Reason = "ErrImageNeverPull"
	ReasonInspect     Reason = "ImageInspectError"
	ReasonInvalidName Reason = "InvalidImageName"
	ReasonRegistry    Reason = "RegistryUnavailable"
	ReasonSignature   Reason = "SignatureValidationFailed"
)

// Error says why there is no image.
type Error struct {
	Reason  Reason
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// Config limits pulls.
type Config struct {
	Serialize   bool
	MaxParallel int // 0: no limit
	// BackOff and MaxBackOff are the delays after a failed pull. Defaults 10 s, 300 s.
	BackOff, MaxBackOff time.Duration
	// Records say which pods may use an image that is on the node; nil: all.
	Records *pullrecord.Store
}

// Event records an event on a container of a pod.
type Event func(pod *corev1.Pod, containerName, eventType, reason, message string)

// Puller brings images to the node.
type Puller struct {
	client  *cri.Client
	event   Event
	logger  *slog.Logger
	slots   chan struct{} // nil: no limit
	backoff *flowcontrol.Backoff
	records *pullrecord.Store

	mu       sync.Mutex
	previous map[string]string // back-off key → message of the last failure
}

// NewPuller makes a puller.
func NewPuller(cfg Config, client *cri.Client, event Event, logger *slog.Logger) *Puller {
	if cfg.BackOff == 0 {
		cfg.BackOff = 10 * time.Second
	}
	if cfg.MaxBackOff == 0 {
		cfg.MaxBackOff = 300 * time.Second
	}
	p := &Puller{client: client, event: event, logger: logger, records: cfg.Records, previous: map[string]string{}, backoff: flowcontrol.NewBackOff(cfg.BackOff, cfg.MaxBackOff)}
	switch {
	case cfg.Serialize:
		p.slots = make(chan struct{}, 1)
	case cfg.MaxParallel > 0:
		p.slots = make(chan struct{}, cfg.MaxParallel)
	}
	return p
}

// Collect forgets back-offs that are long over; call it now and then.
func (p *Puller) Collect() { p.backoff.GC() }

// Image is an image on the node.
type Image struct {
	Ref  string // what CreateContainer gets
	User container.ImageUser
}

// Ensure makes the image of a container be on the node by its pull policy. An *Error tells the waiting reason.
func (p *Puller) Ensure(ctx context.Context, pod *corev1.Pod, c *corev1.Container, secrets []*corev1.Secret, sandbox *runtimeapi.PodSandboxConfig) (*Image, error) {
	name, err := withTag(c.Image)
	if err != nil {
		msg := fmt.Sprintf("Failed to apply default image tag %q: %v", c.Image, err)
		p.event(pod, c.Name, corev1.EventTypeWarning, "InspectFailed", msg)
		return nil, &Error{ReasonInvalidName, msg}
	}
	spec := &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: c.Image, Annotations: pod.Annotations}
	policy := c.ImagePullPolicy
	if policy != corev1.PullAlways {
		found, err := p.inspect(ctx, spec)
		if err != nil {
			msg := fmt.Sprintf("Failed to inspect image %q: %v", name, cri.Message(err))
			p.event(pod, c.Name, corev1.EventTypeWarning, "InspectFailed", msg)
			return nil, &Error{ReasonInspect, msg}
		}
		if found != nil && p.records == nil {
			p.event(pod, c.Name, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.Image))
			return found, nil
		}
		if found != nil && p.accessible(name, found, secrets) {
			p.event(pod, c.Name, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
			return found, nil
		}
		if policy == corev1.PullNever {
			// Who may not use an image does not learn that it is here.
			msg := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
			p.event(pod, c.Name, corev1.EventTypeWarning, "ErrImageNeverPull", msg)
			return nil, &Error{ReasonNeverPull, msg}
		}
	}
	return p.pull(ctx, pod, c, spec, secrets, sandbox)
}

// accessible tells that a pod may use an image of the node without pulling it.
func (p *Puller) accessible(name string, found *Image, secrets []*corev1.Secret) bool {
	var own []pullrecord.Secret
	for _, c := range p.ring(secrets).Credentials(name) {
		own = append(own, c.Secret)
	}
	must, err := p.records.MustPull(name, found.Ref, own)
	if err != nil {
		p.logger.Warn("could not look up how an image was pulled", "image", name, "pull", must, "err", err)
	}
	return !must
}

// Recover brings the records of pulls that a former run did not finish up to date.
func (p *Puller) Recover(ctx context.Context) error {
	if p.records == nil {
		return nil
	}
	list, err := p.client.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	images := make([]pullrecord.Image, len(list.Images))
	for i, img := range list.Images {
		images[i] = pullrecord.Image{Ref: img.Id, Names: slices.Concat(img.RepoTags, img.RepoDigests)}
	}
	return p.records.Recover(images)
}

// Prune forgets what is known of images that the node does not have.
func (p *Puller) Prune(images []*runtimeapi.Image, since time.Time) error {
	if p.records == nil {
		return nil
	}
	refs := make([]string, len(images))
	for i, img := range images {
		refs[i] = img.Id
	}
	return p.records.Prune(refs, since)
}

func (p *Puller) pull(ctx context.Context, pod *corev1.Pod, c *corev1.Container, spec *runtimeapi.ImageSpec, secrets []*corev1.Secret, sandbox *runtimeapi.PodSandboxConfig) (*Image, error) {
	key := fmt.Sprintf("%s_%s", pod.UID, spec.Image)
	now := time.Now()
	if p.backoff.IsInBackOffSinceUpdate(key, now) {
		msg := fmt.Sprintf("Back-off pulling image %q", c.Image)
		p.event(pod, c.Name, corev1.EventTypeNormal, "BackOff", msg)
		p.mu.Lock()
		if prev := p.previous[key]; prev != "" {
			msg += ": " + prev
		}
		p.mu.Unlock()
		return nil, &Error{ReasonBackOff, msg}
	}
	p.event(pod, c.Name, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	if p.slots != nil {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-ctx.Done():
			return nil, &Error{ReasonPull, ctx.Err().Error()}
		}
	}
	begun := time.Now()
	if p.records != nil {
		if err := p.records.Intend(spec.Image); err != nil {
			return nil, &Error{ReasonPull, err.Error()}
		}
	}
	ref, secret, err := p.try(ctx, spec, secrets, sandbox)
	if err != nil {
		if p.records != nil {
			if err := p.records.Failed(spec.Image); err != nil {
				p.logger.Warn("could not end the record of a pull", "err", err)
			}
		}
		if ctx.Err() != nil {
			return nil, &Error{ReasonPull, ctx.Err().Error()} // interrupted: nobody's failure
		}
		p.event(pod, c.Name, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, cri.Message(err)))
		p.backoff.Next(key, time.Now())
		e := &Error{ReasonPull, cri.Message(err)}
		if rest, ok := strings.CutPrefix(e.Message, string(ReasonRegistry)); ok {
			e = &Error{ReasonRegistry, fmt.Sprintf("image pull failed for %s because the registry is unavailable%s", c.Image, rest)}
		} else if rest, ok := strings.CutPrefix(e.Message, string(ReasonSignature)); ok {
			e = &Error{ReasonSignature, fmt.Sprintf("image pull failed for %s because the signature validation failed%s", c.Image, rest)}
		}
		p.mu.Lock()
		p.previous[key] = e.Error()
		p.mu.Unlock()
		return nil, e
	}
	p.mu.Lock()
	delete(p.previous, key)
	p.mu.Unlock()
	p.backoff.DeleteEntry(key)
	took, waited := time.Since(begun).Truncate(time.Millisecond), time.Since(now).Truncate(time.Millisecond)
	pulled, err := p.inspect(ctx, &runtimeapi.ImageSpec{Image: ref, Annotations: pod.Annotations})
	if err != nil || pulled == nil {
		pulled = &Image{Ref: ref}
	}
	if p.records != nil {
		if err := p.records.Pulled(spec.Image, pulled.Ref, secret); err != nil {
			p.logger.Warn("could not record how an image was pulled: the next pod pulls it again", "image", spec.Image, "err", err)
		}
	}
	var size uint64
	if st, err := p.client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}}); err == nil && st.Image != nil {
		size = st.Image.Size
	}
	p.event(pod, c.Name, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.", c.Image, took, waited, size))
	return pulled, nil
}

// ring holds the credentials of a pod's pull secrets.
func (p *Puller) ring(secrets []*corev1.Secret) *Keyring {
	ring := &Keyring{}
	for _, s := range secrets {
		if err := ring.AddSecret(s); err != nil {
			p.logger.Warn("pull secret is not usable", "secret", s.Namespace+"/"+s.Name, "err", err)
		}
	}
	return ring
}

// try pulls with each matching credential in turn, or without when there is none. It answers the secret that it took,
// nil for none.
func (p *Puller) try(ctx context.Context, spec *runtimeapi.ImageSpec, secrets []*corev1.Secret, sandbox *runtimeapi.PodSandboxConfig) (string, *pullrecord.Secret, error) {
	credentials := p.ring(secrets).Credentials(spec.Image)
	if len(credentials) == 0 {
		credentials = []Credential{{}}
	}
	var errs []error
	for _, c := range credentials {
		resp, err := p.client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: spec, Auth: c.Auth, SandboxConfig: sandbox})
		if err == nil {
			if resp.ImageRef == "" {
				return "", nil, fmt.Errorf("imageRef of image %q is not set", spec.Image)
			}
			if c.Auth == nil {
				return resp.ImageRef, nil, nil
			}
			return resp.ImageRef, &c.Secret, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return "", nil, errs[0]
	}
	return "", nil, errors.Join(errs...)
}

// inspect finds an image on the node; nil when it is not there.
func (p *Puller) inspect(ctx context.Context, spec *runtimeapi.ImageSpec) (*Image, error) {
	resp, err := p.client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil {
		return nil, err
	}
	if resp.Image == nil {
		return nil, nil
	}
	img := &Image{Ref: resp.Image.Id}
	if resp.Image.Uid != nil {
		uid := resp.Image.Uid.Value
		img.User.UID = &uid
	} else {
		img.User.Name = resp.Image.Username
	}
	return img, nil
}

// withTag adds :latest to a name without tag and digest.
func withTag(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("couldn't parse image reference %q: %w", image, err)
	}
	if reference.IsNameOnly(named) {
		return image + ":latest", nil
	}
	return image, nil
}
