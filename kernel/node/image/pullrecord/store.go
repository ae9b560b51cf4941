package pullrecord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// maxSecrets is how many secrets a record keeps of one image; more come to a
// pull each time.
const maxSecrets = 100

// Secret is a pull secret with a digest of what it holds for an image.
type Secret = kubeletv1beta1.ImagePullSecret

// Hash is the digest of credentials, by which they are known again.
func Hash(credentials ...string) string {
	h := sha256.New()
	for _, c := range credentials {
		_ = json.NewEncoder(h).Encode(c) // unambiguous; a hash takes all
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Store keeps the records of one node.
type Store struct {
	policy          Policy
	pulling, pulled string
	now             func() time.Time

	mu      sync.Mutex
	intents map[string]int // pulls under way, by image
}

// Open makes the directories below dir.
func Open(dir string, policy Policy) (*Store, error) {
	if err := policy.Check(); err != nil {
		return nil, fmt.Errorf("verification of image pull credentials: %w", err)
	}
	s := &Store{policy: policy, pulling: filepath.Join(dir, "pulling"), pulled: filepath.Join(dir, "pulled"), now: time.Now, intents: map[string]int{}}
	for _, d := range []string{dir, s.pulling, s.pulled} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("records of image pulls: %w", err)
		}
		if err := os.Chmod(d, 0o700); err != nil {
			return nil, fmt.Errorf("records of image pulls: %w", err)
		}
	}
	return s, nil
}

func file(dir, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, "sha256-"+hex.EncodeToString(sum[:]))
}

// Intend notes a pull that begins: an image that arrives and whose record is lost
// counts as pulled with credentials nobody knows.
func (s *Store) Intend(image string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	record := kubeletv1beta1.ImagePullIntent{TypeMeta: typeMeta("ImagePullIntent"), Image: image}
	if err := write(file(s.pulling, image), record); err != nil {
		return fmt.Errorf("record the pull of image %q: %w", image, err)
	}
	s.intents[image]++
	return nil
}

// Failed ends a pull that brought nothing.
func (s *Store) Failed(image string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(image)
}

func (s *Store) end(image string) error {
	if s.intents[image]--; s.intents[image] > 0 {
		return nil
	}
	delete(s.intents, image)
	if err := os.Remove(file(s.pulling, image)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of pulling image %q: %w", image, err)
	}
	return nil
}

// Pulled ends a pull that brought an image. secret is what it was pulled with, nil
// for a pull that needed none. After an error the intent stays, so that the image
// is verified all the same.
func (s *Store) Pulled(image, ref string, secret *Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	credentials := kubeletv1beta1.ImagePullCredentials{NodePodsAccessible: secret == nil}
	if secret != nil {
		credentials.KubernetesSecrets = []Secret{*secret}
	}
	if err := s.add(image, ref, &credentials); err != nil {
		return err
	}
	return s.end(image)
}

// add merges credentials, or nil, into the record of an image.
func (s *Store) add(image, ref string, credentials *kubeletv1beta1.ImagePullCredentials) error {
	name, err := repository(image)
	if err != nil {
		return err
	}
	record, err := s.read(ref)
	if record == nil || err != nil { // none, or damaged
		record = &kubeletv1beta1.ImagePulledRecord{ImageRef: ref}
	}
	if record.CredentialMapping == nil {
		record.CredentialMapping = map[string]kubeletv1beta1.ImagePullCredentials{}
	}
	if credentials != nil {
		record.CredentialMapping[name] = merge(record.CredentialMapping[name], *credentials)
	}
	record.TypeMeta, record.LastUpdatedTime = typeMeta("ImagePulledRecord"), metav1.NewTime(s.now())
	if err := write(file(s.pulled, ref), record); err != nil {
		return fmt.Errorf("record the credentials of image %q: %w", image, err)
	}
	return nil
}

// merge adds credentials. A secret that changed takes its own place.
func merge(have, more kubeletv1beta1.ImagePullCredentials) kubeletv1beta1.ImagePullCredentials {
	if have.NodePodsAccessible || more.NodePodsAccessible {
		return kubeletv1beta1.ImagePullCredentials{NodePodsAccessible: true}
	}
	for _, secret := range more.KubernetesSecrets {
		have.KubernetesSecrets = append(slices.DeleteFunc(have.KubernetesSecrets, func(s Secret) bool { return sameObject(s, secret) }), secret)
	}
	if extra := len(have.KubernetesSecrets) - maxSecrets; extra > 0 {
		have.KubernetesSecrets = have.KubernetesSecrets[extra:]
	}
	return have
}

func sameObject(a, b Secret) bool {
	return a.UID == b.UID && a.Namespace == b.Namespace && a.Name == b.Name
}

// MustPull tells that a pod may use an image of the node only if it can pull it
// itself. secrets are those of the pod that hold credentials for the image.
func (s *Store) MustPull(image, ref string, secrets []Secret) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, err := s.read(ref)
	if err != nil {
		return true, err
	}
	pulled := record != nil || s.intents[image] > 0
	if !pulled {
		_, err := os.Stat(file(s.pulling, image))
		if pulled = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, fmt.Errorf("look for a pull of image %q: %w", image, err)
		}
	}
	if !s.policy.verifies(image, pulled) {
		return false, nil
	}
	if record == nil {
		return true, nil
	}
	name, err := repository(image)
	if err != nil {
		return true, err
	}
	known := record.CredentialMapping[name]
	if known.NodePodsAccessible {
		return false, nil
	}
	for _, secret := range secrets {
		for _, k := range known.KubernetesSecrets {
			same, object := secret.CredentialHash != "" && secret.CredentialHash == k.CredentialHash, sameObject(secret, k)
			if !same && !object {
				continue
			}
			if same != object && len(known.KubernetesSecrets) < maxSecrets {
				// The same credentials in another secret, or that secret with others: known from here on.
				return false, s.add(image, ref, &kubeletv1beta1.ImagePullCredentials{KubernetesSecrets: []Secret{secret}})
			}
			return false, nil
		}
	}
	return true, nil
}

// Image is an image on the node.
type Image struct {
	Ref   string
	Names []string // with tags or digests
}

// Recover turns intents that a former run left into records without credentials
// where their image arrived.
func (s *Store) Recover(images []Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.pulling)
	if err != nil {
		return fmt.Errorf("records of image pulls: %w", err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(s.pulling, e.Name())
		if strings.HasSuffix(path, unfinished) {
			errs = append(errs, os.Remove(path))
			continue
		}
		var intent kubeletv1beta1.ImagePullIntent
		if err := read(path, &intent); err != nil {
			errs = append(errs, err)
			continue
		}
		if s.intents[intent.Image] > 0 {
			continue // of this run
		}
		arrived := false
		for _, img := range images {
			if slices.ContainsFunc(img.Names, func(name string) bool { return sameImage(name, intent.Image) }) {
				arrived = true
				errs = append(errs, s.add(intent.Image, img.Ref, nil))
			}
		}
		if arrived {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

func sameImage(a, b string) bool {
	full := func(s string) string {
		if name, err := repository(s); err == nil {
			if at := strings.LastIndex(s, "@"); at >= 0 {
				return name + s[at:]
			}
			if colon := strings.LastIndex(s, ":"); colon > strings.LastIndex(s, "/") {
				return name + s[colon:]
			}
			return name + ":latest"
		}
		return s
	}
	return full(a) == full(b)
}

// Prune removes the records of images that the node does not have, but for those
// written since.
func (s *Store) Prune(refs []string, since time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.pulled)
	if err != nil {
		return fmt.Errorf("records of image pulls: %w", err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(s.pulled, e.Name())
		if strings.HasSuffix(path, unfinished) {
			errs = append(errs, os.Remove(path))
			continue
		}
		var record kubeletv1beta1.ImagePulledRecord
		if err := read(path, &record); err != nil {
			errs = append(errs, err)
		} else if record.LastUpdatedTime.Time.Before(since.Truncate(time.Second)) && !slices.Contains(refs, record.ImageRef) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: kind}
}

// read is the record of an image; nil without one.
func (s *Store) read(ref string) (*kubeletv1beta1.ImagePulledRecord, error) {
	record := &kubeletv1beta1.ImagePulledRecord{}
	err := read(file(s.pulled, ref), record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && record.ImageRef != ref {
		err = fmt.Errorf("the record of image %q is one of %q", ref, record.ImageRef)
	}
	return record, err
}

func read(path string, into any) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("read record %s: %w", path, err)
	}
	return nil
}

// unfinished ends the name of a file that is being written.
const unfinished = ".tmp"

// write writes a file whole or not at all, for its owner alone.
func write(path string, record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+unfinished, path)
}
