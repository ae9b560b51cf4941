package api

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	encryptionconfigcontroller "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	storagevalue "k8s.io/apiserver/pkg/storage/value"

	"pintle.dev/pintle/kernel/api/storage"
)

// encryption is what an EncryptionConfiguration asks for, kept at the file's
// present content.
type encryption struct {
	file         string
	id           string
	hash         string
	transformers *encryptionconfig.DynamicTransformers
}

// loadEncryption reads the file and reaches the KMS plugins that it names, as
// kube-apiserver does. What it starts ends with ctx. nil without a file.
func (s *Server) loadEncryption(ctx context.Context) (*encryption, error) {
	file := s.cfg.EncryptionConfig
	if file == "" {
		return nil, nil
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		s.log.Warn("the encryption configuration, which holds keys, can be read by others; set its mode to 0600", "file", file, "mode", info.Mode().Perm().String())
	}
	ctx, end := context.WithCancel(ctx)
	id := "pintle-" + uuid.NewString()
	loaded, err := encryptionconfig.LoadEncryptionConfig(ctx, file, true, id)
	if err != nil {
		end()
		return nil, fmt.Errorf("encryption configuration %s: %w", file, err)
	}
	if len(loaded.HealthChecks) != 1 {
		end()
		return nil, fmt.Errorf("encryption configuration %s: %d health checks; want one for all providers", file, len(loaded.HealthChecks))
	}
	return &encryption{
		file: file, id: id, hash: loaded.EncryptionFileContentHash,
		transformers: encryptionconfig.NewDynamicTransformers(loaded.Transformers, loaded.HealthChecks[0], end, loaded.KMSCloseGracePeriod),
	}, nil
}

// follow takes up changes of the file until ctx ends. A file that cannot be
// used leaves the one before in force.
func (e *encryption) follow(ctx context.Context) {
	encryptionconfigcontroller.NewDynamicEncryptionConfiguration("encryption-provider-config-automatic-reload-controller",
		e.file, e.transformers, e.hash, e.id).Run(ctx)
}

// encrypted gives resources the transformer that the configuration has for them.
func (s *Server) encrypted(options generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	if s.encryption == nil {
		return options
	}
	return encryptedOptions{options, s.encryption.transformers}
}

type encryptedOptions struct {
	generic.RESTOptionsGetter
	transformers storagevalue.ResourceTransformers
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o encryptedOptions) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(gr, example)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	config.Transformer = o.transformers.TransformerForResource(gr)
	options.StorageConfig = &config
	return options, nil
}

// readable tells whether objects of a kind can be decrypted. Where the store
// cannot tell that from damage, the first one has to be readable.
func readable(ctx context.Context, s *genericregistry.Store) error {
	if own, ok := s.Storage.Storage.(*storage.Storage); ok {
		return own.Readable(ctx)
	}
	_, err := s.List(ctx, &internalversion.ListOptions{Limit: 1})
	return err
}

// checkReadable reads one object of each kind, so that a store that was written
// with keys which this server does not have is refused at the start. Watches
// would else wait without end.
func (s *Server) checkReadable(ctx context.Context) error {
	group, ctx := errgroup.WithContext(request.WithNamespace(ctx, metav1.NamespaceAll))
	for gr, store := range s.stores {
		group.Go(func() error {
			err := readable(ctx, store)
			if err == nil {
				return nil
			}
			what := "set store.encryptionConfig to the EncryptionConfiguration that they were written with"
			if s.encryption != nil {
				what = "add the key that they were written with to " + s.encryption.file
			}
			return fmt.Errorf("stored %s cannot be read: %w; %s; nothing was changed", gr, err, what)
		})
	}
	return group.Wait()
}
