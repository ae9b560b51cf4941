package credentials

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/token"
	"pintle.dev/pintle/kernel/api/auth/tokenkeys"
	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/kernel/secretfile"
)

const (
	// lookEvery is how often the files and the shared record are looked at.
	lookEvery = time.Second
	// learn is how long a next key is known to the other kernels before it signs.
	learn = 10 * lookEvery
	// sayAgain is how often a fault that lasts is told.
	sayAgain = time.Minute
)

// Options of a Keeper.
type Options struct {
	PKI  *pki.PKI
	Keys *token.Keys
	// KeyFiles are further files of keys that verify, read again when they change.
	KeyFiles []string
	// Shared is nil where the kernel is alone.
	Shared Shared
	Logger *slog.Logger
	// Clock is the machine's when nil.
	Clock clock.WithTicker
}

// Keeper keeps credentials in force.
type Keeper struct {
	o   Options
	dir string

	seen     string // what the files looked like
	leaves   string // and those of certificates
	revision int64  // of the shared record
	// nextSince is when a next key was first seen in the shared record.
	next      string
	nextSince time.Time
	// keys and verifying are what was put in force last.
	keys  tokenkeys.Set
	extra []crypto.PublicKey
	said  InForce
	fault string
	told  time.Time
}

// Open brings what the directory and the other kernels say in force, or says what
// keeps it from that.
func Open(ctx context.Context, o Options) (*Keeper, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	k := &Keeper{o: o, dir: o.PKI.Directory()}
	if err := k.look(ctx); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return k, nil
}

// Run follows changes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	release, err := secretfile.Hold(k.dir)
	if err != nil {
		k.o.Logger.Warn("commands do not see that this kernel runs", "error", err)
	} else {
		defer release()
	}
	defer func() { _ = os.Remove(filepath.Join(k.dir, inForceFile)) }()
	ticker := k.o.Clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		k.lookAtCertificates()
		err := errors.Join(k.look(ctx), k.say())
		k.tell(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// tell logs a fault when it is new, and again while it lasts.
func (k *Keeper) tell(err error) {
	now := k.o.Clock.Now()
	if err == nil || errors.Is(err, context.Canceled) {
		if k.fault != "" && err == nil {
			k.o.Logger.Info("credentials are up to date again")
			k.fault = ""
		}
		return
	}
	if err.Error() != k.fault || now.Sub(k.told) >= sayAgain {
		k.fault, k.told = err.Error(), now
		k.o.Logger.Error("credentials cannot be brought up to date; those before stay in force", "error", err)
	}
}

// lookAtCertificates has those read again whose file is another.
func (k *Keeper) lookAtCertificates() {
	var files []string
	for name := range k.o.PKI.InUse() {
		files = append(files, filepath.Join(k.dir, name+".crt"))
	}
	slices.Sort(files)
	if now := signature(files); now != k.leaves {
		if k.leaves != "" {
			k.o.PKI.Look()
		}
		k.leaves = now
	}
}

// look reads what changed, and brings it in force. What is wrong with one part keeps
// no other from being obeyed.
func (k *Keeper) look(ctx context.Context) error {
	seen := k.signature()
	if seen == k.seen {
		if k.o.Shared == nil {
			return nil
		}
		// A next key waits for its time.
		if _, revision, err := k.o.Shared.ReadCredentials(ctx); err != nil || revision == k.revision && k.next == "" {
			return err
		}
	}
	unlock, err := secretfile.Lock(k.dir)
	if err != nil {
		return err
	}
	defer unlock()
	// Read under the lock: what a command is writing is waited for.
	seen = k.signature()
	fileList, listErr := revocation.Read(filepath.Join(k.dir, pki.RevocationFile), k.o.PKI.CA())
	if listErr == nil {
		k.revoke(fileList)
	}
	files, keysErr := tokenkeys.Read(k.dir)
	extra, extraErr := k.configured()
	if extraErr == nil {
		k.extra = extra
	}
	next := files
	switch {
	case keysErr != nil && k.o.Shared == nil:
		return errors.Join(listErr, keysErr, extraErr)
	case keysErr != nil:
		// What the others revoke counts here in any case.
		known, err := k.known(ctx)
		if err == nil && known != nil {
			k.revoke(known.revocations)
			if k.keys.Signing != nil {
				err = k.enforce(tokenkeys.Merge(k.keys, known.keys))
			}
		}
		return errors.Join(listErr, keysErr, extraErr, err)
	case k.o.Shared == nil:
		next = files.Rotate()
	default:
		var sharedErr error
		if next, sharedErr = k.share(ctx, files); sharedErr != nil {
			// Without the others: nothing new signs, and revocations count.
			if k.keys.Signing != nil {
				sharedErr = errors.Join(sharedErr, k.enforce(tokenkeys.Merge(files, k.keys)))
			}
			return errors.Join(listErr, extraErr, sharedErr)
		}
	}
	// A key that was revoked here stays so, whatever the files say.
	for _, key := range k.keys.Revoked {
		next = next.Revoke(key)
	}
	if !next.Same(files) {
		if err := tokenkeys.Write(k.dir, files, next); err != nil {
			return errors.Join(listErr, err)
		}
	}
	if listErr == nil && k.o.Shared != nil {
		listErr = k.writeList(fileList)
	}
	if err := k.enforce(next); err != nil {
		return errors.Join(listErr, err)
	}
	if err := errors.Join(listErr, extraErr); err != nil {
		return err
	}
	if next.Same(files) {
		k.seen = seen
	}
	return nil
}

// revoke puts a list in force beside what is.
func (k *Keeper) revoke(l *revocation.List) {
	before := k.o.PKI.Guard().List()
	if !k.o.PKI.Guard().Add(l) {
		return
	}
	for _, e := range l.Entries() {
		if !before.Has(e.Serial) {
			k.o.Logger.Info("certificate revoked; its connections are cut", "serial", fmt.Sprintf("%x", e.Serial))
		}
	}
	// Those of the directory are issued anew.
	k.o.PKI.Look()
}

// writeList writes the list in force, where the file has less.
func (k *Keeper) writeList(file *revocation.List) error {
	if _, more := file.Union(k.o.PKI.Guard().List()); !more {
		return nil
	}
	_, data, err := k.o.PKI.SignRevocations(k.o.PKI.Guard().List())
	if err != nil {
		return err
	}
	return secretfile.Write(filepath.Join(k.dir, pki.RevocationFile), data, 0o600)
}

// enforce exchanges the keys of tokens.
func (k *Keeper) enforce(s tokenkeys.Set) error {
	verifying := s.Verifying()
	for _, key := range k.extra {
		if !slices.ContainsFunc(s.Revoked, func(r crypto.PublicKey) bool { return tokenkeys.ID(r) == tokenkeys.ID(key) }) {
			verifying = append(verifying, key)
		}
	}
	before := k.o.Keys.IDs()
	signer := s.Signer()
	if signer == nil && len(verifying) == 0 {
		return errors.New("all keys of tokens were revoked: run pintle pki rotate sa")
	}
	if err := k.o.Keys.Set(signer, verifying...); err != nil {
		return err
	}
	k.keys = s
	if after := k.o.Keys.IDs(); before != nil && !slices.Equal(before, after) {
		k.o.Logger.Info("keys of service account tokens changed", "signs", tokenkeys.ID(&s.Signing.PublicKey), "verify", after)
	}
	return nil
}

// known is what the kernels share; nil where nobody wrote it yet.
func (k *Keeper) known(ctx context.Context) (*shared, error) {
	data, revision, err := k.o.Shared.ReadCredentials(ctx)
	if err != nil {
		return nil, err
	}
	k.revision = revision
	if data == nil {
		return nil, nil
	}
	s, err := openRecord(k.o.PKI, data)
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// share brings this kernel's keys and the shared ones to one set, and writes what the
// others do not know.
func (k *Keeper) share(ctx context.Context, files tokenkeys.Set) (tokenkeys.Set, error) {
	for range 5 {
		known, err := k.known(ctx)
		if err != nil {
			return files, err
		}
		next := files
		if known != nil {
			k.revoke(known.revocations)
			if !linked(files, known.keys) {
				return files, errForeign
			}
			next = tokenkeys.Merge(files, known.keys)
			next = k.rotate(next, known.keys)
		}
		var more bool
		if known != nil {
			_, more = known.revocations.Union(k.o.PKI.Guard().List())
		}
		if known != nil && !more && next.Same(known.keys) {
			return next, nil
		}
		out := shared{keys: next}
		if list := k.o.PKI.Guard().List(); len(list.Entries()) > 0 {
			if _, out.revocationsP, err = k.o.PKI.SignRevocations(list); err != nil {
				return files, err
			}
		}
		data, err := sealRecord(k.o.PKI, out)
		if err != nil {
			return files, err
		}
		ok, err := k.o.Shared.WriteCredentials(ctx, data, k.revision)
		if err != nil {
			return files, err
		}
		if ok {
			return next, nil
		}
	}
	return files, errors.New("other kernels change the cluster's credentials at the same time; it is tried again")
}

// rotate has the next key sign, when the others had the time to learn of it.
func (k *Keeper) rotate(s, known tokenkeys.Set) tokenkeys.Set {
	if known.Next == nil {
		k.next = ""
		return s
	}
	now := k.o.Clock.Now()
	if id := tokenkeys.ID(&known.Next.PublicKey); id != k.next {
		k.next, k.nextSince = id, now
	}
	if now.Sub(k.nextSince) < learn {
		return s
	}
	return s.Rotate()
}

// configured reads the configured files.
func (k *Keeper) configured() (keys []crypto.PublicKey, err error) {
	for _, file := range k.o.KeyFiles {
		more, err := tokenkeys.ReadConfigured(file)
		if err != nil {
			return nil, fmt.Errorf("auth.serviceAccountKeyFiles: %w", err)
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// signature changes when a file does.
func (k *Keeper) signature() string {
	files := []string{filepath.Join(k.dir, pki.RevocationFile)}
	for _, f := range tokenkeys.Files {
		files = append(files, filepath.Join(k.dir, f))
	}
	return signature(append(files, k.o.KeyFiles...))
}

func signature(files []string) string {
	var b strings.Builder
	for _, f := range files {
		info, err := os.Stat(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			b.WriteString("-")
		case err != nil:
			b.WriteString(err.Error())
		default:
			st := info.Sys().(*syscall.Stat_t)
			fmt.Fprintf(&b, "%d:%d:%d:%d", st.Ino, info.Size(), st.Mtim.Nano(), st.Ctim.Nano())
		}
		b.WriteString(";")
	}
	return b.String()
}

// inForceFile says to commands what the kernel has taken up.
const inForceFile = "in-force.json"

// InForce is what a kernel that runs has taken up.
type InForce struct {
	Revoked      []string          `json:"revoked"` // serial numbers of certificates
	Signing      string            `json:"signing"`
	Verifying    []string          `json:"verifying"`
	Certificates map[string]string `json:"certificates"` // serial numbers of those in use
	Fault        string            `json:"fault,omitempty"`
}

// say writes what is in force, when that changed.
func (k *Keeper) say() error {
	now := InForce{Verifying: k.o.Keys.IDs(), Certificates: k.o.PKI.InUse(), Fault: k.fault}
	for _, e := range k.o.PKI.Guard().List().Entries() {
		now.Revoked = append(now.Revoked, fmt.Sprintf("%x", e.Serial))
	}
	if signer := k.keys.Signer(); signer != nil {
		now.Signing = tokenkeys.ID(&signer.PublicKey)
	}
	if now.same(k.said) {
		return nil
	}
	data, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	if err := secretfile.Write(filepath.Join(k.dir, inForceFile), append(data, '\n'), 0o600); err != nil {
		return err
	}
	k.said = now
	return nil
}

func (f InForce) same(o InForce) bool {
	return f.Signing == o.Signing && f.Fault == o.Fault && slices.Equal(f.Revoked, o.Revoked) &&
		slices.Equal(f.Verifying, o.Verifying) && maps.Equal(f.Certificates, o.Certificates)
}
