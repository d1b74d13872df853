package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// Image is what nodes run: [Registry], [GoBinary], or the [FirstOf] several that can be had.
type Image interface {
	// String says what the image is, for log messages.
	String() string
	// validate says what is wrong with the description.
	validate() error
	// resolve makes the image available on the engine and returns the name it has there.
	// It logs which image was used and everything that takes long.
	resolve(ctx context.Context, e *engine, log func(string, ...any)) (ref string, err error)
}

// Prepare makes everything available that Start needs of images: image itself, and the holder. A
// Start that follows has nothing to build or pull. It returns the name that the image has on the
// engine. log receives progress; nil drops it.
func Prepare(ctx context.Context, image Image, log func(format string, args ...any)) (ref string, err error) {
	if log == nil {
		log = func(string, ...any) {}
	}
	fail := func(err error) (string, error) { return "", fmt.Errorf("prepare image %s: %w", image, err) }
	if err := image.validate(); err != nil {
		return fail(err)
	}
	e, err := connect(ctx)
	if err != nil {
		return fail(err)
	}
	defer e.close()
	if ref, err = image.resolve(ctx, e, log); err != nil {
		return fail(err)
	}
	if _, err = resolveHolder(ctx, e, log); err != nil {
		return fail(fmt.Errorf("holder: %w", err))
	}
	return ref, nil
}

// Registry is an image by its reference, "quay.io/coreos/etcd:v3.6.12". It is pulled if the
// engine does not have it.
func Registry(ref string) Image { return registryImage(ref) }

type registryImage string

func (r registryImage) String() string { return string(r) }

func (r registryImage) validate() error {
	if strings.TrimSpace(string(r)) == "" {
		return errors.New("image reference is empty")
	}
	return nil
}

func (r registryImage) resolve(ctx context.Context, e *engine, log func(string, ...any)) (string, error) {
	ref := string(r)
	has, err := e.hasImage(ctx, ref)
	if err != nil {
		return "", err
	}
	if !has {
		log("image: pulling %s", ref)
		res, err := e.client.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: credentials(ctx, ref)})
		if err == nil {
			err = res.Wait(ctx)
			res.Close()
		}
		if err != nil {
			return "", fmt.Errorf("is not on this machine and cannot be pulled; check its name and that the registry can be reached (%w)", err)
		}
	}
	log("image: using %s", ref)
	return ref, nil
}

// credentials are those of the user's Docker configuration for the registry of ref, and "",
// which means none, where there are none or they cannot be had: the registry then says so.
func credentials(ctx context.Context, ref string) string {
	_, auth, err := testcontainers.DockerImageAuth(ctx, ref)
	if err != nil {
		return ""
	}
	encoded, err := authconfig.Encode(auth)
	if err != nil {
		return ""
	}
	return encoded
}

// FirstOf is the first of images that can be had: the others are tried in order, and the log
// says which was used and what kept the ones before it from being used.
func FirstOf(images ...Image) Image { return firstOf(images) }

type firstOf []Image

func (f firstOf) String() string {
	names := make([]string, len(f))
	for i, img := range f {
		names[i] = img.String()
	}
	return strings.Join(names, " or else ")
}

func (f firstOf) validate() error {
	if len(f) == 0 {
		return errors.New("FirstOf has no images")
	}
	for _, img := range f {
		if img == nil {
			return errors.New("FirstOf has an image that is nil")
		}
		if err := img.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (f firstOf) resolve(ctx context.Context, e *engine, log func(string, ...any)) (string, error) {
	var errs []error
	for _, img := range f {
		ref, err := img.resolve(ctx, e, log)
		if err == nil {
			return ref, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
		log("image: %s cannot be had: %v", img, err)
		errs = append(errs, fmt.Errorf("%s: %w", img, err))
	}
	return "", fmt.Errorf("none can be had: %w", errors.Join(errs...))
}
