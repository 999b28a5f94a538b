/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: loss, backward and optimiser step of a model, planned once and replayed.
 *
 *     dhow_trainer *t;
 *     dhow_trainer_create(model, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
 *                                           .optimizer = DHOW_OPTIMIZER_ADAMW,
 *                                           .learning_rate = 1e-3), &t);
 *     double loss;
 *     while ((status = dhow_loader_next(loader, &batch)) == DHOW_OK && batch.sample_count > 0)
 *         if ((status = dhow_trainer_step(t, &batch, &loss)) != DHOW_OK) break;
 *     if (status == DHOW_OK) status = dhow_trainer_update_model(t);
 *
 * The trainer has parameters, gradients and the optimiser's state of its own, each in one array on
 * the model's device; the model stays as it is until dhow_trainer_update_model(). Names and
 * defaults are PyTorch's.
 *
 * A model of DHOW_PRECISION_BF16 or _F16 (dhow_model_set_precision()) trains in mixed precision, as
 * under torch.autocast: forward and backward its products, convolutions and attention take 16-bit
 * floats, sums and everything delicate are f32, and so are parameters, gradients, losses and the
 * optimiser's state.
 */
#ifndef DHOW_TRAIN_H_
#define DHOW_TRAIN_H_

#include "dhow/data.h"
#include "dhow/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_trainer dhow_trainer;

/** What the model's first output is compared with, averaged over the batch. */
typedef enum dhow_loss {
    DHOW_LOSS_OUTPUT = 0,          /**< the output itself is the loss, one number; no target */
    DHOW_LOSS_CROSS_ENTROPY = 1,   /**< scores [n, c, ...], classes i64[n, ...]; one of
                                        `ignore_index` is left out, others outside 0 .. c - 1 make
                                        the loss NaN */
    DHOW_LOSS_NLL = 2,             /**< the same of log-probabilities */
    DHOW_LOSS_MSE = 3,             /**< (y - t)^2; t is like the output, as of those below */
    DHOW_LOSS_L1 = 4,              /**< |y - t| */
    DHOW_LOSS_SMOOTH_L1 = 5,       /**< (y - t)^2 / (2 b) where |y - t| < b, else |y - t| - b/2;
                                        b is `smooth_l1_beta` */
    DHOW_LOSS_BCE_WITH_LOGITS = 6, /**< -p t log s(y) - (1 - t) log(1 - s(y)), s being the sigmoid
                                        and p `pos_weight` */
    DHOW_LOSS_HUBER = 7,           /**< (y - t)^2 / 2 where |y - t| < d, else d (|y - t| - d/2);
                                        d is `huber_delta` */
    DHOW_LOSS_KL_DIV = 8,          /**< t (log t - y) of log-probabilities y[n, ...]: the sum over
                                        all elements divided by n, PyTorch's "batchmean" */
    DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES = 9, /**< cross entropy of scores [n, c, ...] whose target
                                                    has a probability for each class */
    DHOW_LOSS_CTC = 10 /**< connectionist temporal classification (Graves et al., 2006) of
                            log-probabilities [t, n, c], blank being class 0. The target is
                            i64[n, 2 + s]: of each sequence the steps of its input, 1 to t, the
                            classes of its target, 0 to s, and those classes, 1 .. c - 1, with
                            anything behind them. Each loss is divided by the length of its target,
                            as PyTorch's "mean". Lengths and classes that are none make the loss
                            NaN; a target that its input is too short for makes it infinite, see
                            `ctc_zero_infinity`, and has a derivative of 0 */
} dhow_loss;

/** How gradients change parameters; formulas as in PyTorch's torch.optim. */
typedef enum dhow_optimizer {
    DHOW_OPTIMIZER_SGD = 0, /**< momentum, Nesterov, weight decay */
    DHOW_OPTIMIZER_ADAM = 1,
    DHOW_OPTIMIZER_ADAMW = 2, /**< decay apart from the gradient (Loshchilov and Hutter, 2019) */
    DHOW_OPTIMIZER_RMSPROP = 3,
    DHOW_OPTIMIZER_LION = 4 /**< Chen et al., 2023 */
} dhow_optimizer;

/**
 * Processes that train the same model together, each on its part of every batch, as PyTorch's
 * DistributedDataParallel: MPI's are dhow_mpi_process_group().
 */
typedef struct dhow_process_group {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    uint32_t rank, size;  /**< this process, and how many there are */
    /**
     * Adds up `count` numbers, f32 or f64 in host memory, over all processes: each gets the sums in
     * their place, the same bits. All processes call it in the same order with the same counts.
     * Anything but DHOW_OK comes out of the trainer's call, with what dhow_set_error() was told.
     */
    dhow_status (*all_reduce)(void *user, dhow_dtype dtype, void *data, int64_t count);
    void *user;         /**< handed to it */
    int32_t any_thread; /**< 1: another thread of the process may call all_reduce, one at a time:
                             gradients are then added up bucket by bucket while the backward
                             runs. 0: the trainer's caller calls it,
                             after the backward */
} dhow_process_group;

/** Numbers that are 0 stand for the default of the optimiser, as PyTorch has it. */
typedef struct dhow_trainer_options {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_loss loss;
    dhow_optimizer optimizer;
    double learning_rate;   /**< 0: 1e-3; 1e-2 of RMSprop, 1e-4 of Lion */
    double momentum;        /**< of SGD and RMSprop */
    double dampening;       /**< of SGD */
    int32_t nesterov;       /**< of SGD: 1 for Nesterov's form, which wants a momentum */
    double weight_decay;    /**< 0: none, but 0.01 of AdamW; negative: none of that either */
    double beta1;           /**< 0: 0.9 */
    double beta2;           /**< 0: 0.999, 0.99 of Lion */
    double alpha;           /**< of RMSprop; 0: 0.99 */
    double eps;             /**< 0: 1e-8 */
    double clip_norm;       /**< above 0: gradients are scaled down together to this norm */
    const char *trainable;  /**< names to train, with * and ?; NULL: every floating parameter.
                                 Never those that no derivative goes by, as bounds of Clip */
    uint64_t seed;          /**< of the masks of dropout layers */
    double clip_value;      /**< above 0: each gradient is cut to -clip_value .. clip_value */
    double label_smoothing; /**< of cross entropy, 0 to 1: the share of a target that all classes
                                 have alike (Szegedy et al., 2016) */
    const int64_t *ignore_index; /**< the class that losses by class leave out; NULL: -100 */
    dhow_tensor *weight;         /**< f[c], of losses by class and of cross entropy; copied */
    dhow_tensor *pos_weight;     /**< of BCE with logits, broadcasts to the output; copied */
    double smooth_l1_beta;       /**< 0: 1 */
    double huber_delta;          /**< 0: 1 */
    double batchnorm_momentum;   /**< what a batch counts in running statistics; 0: 0.1, of an ONNX
                                      node 1 - its `momentum` */
    int32_t freeze_batchnorm;  /**< 1: batch norms take their running statistics, as when the model
                                    runs, and leave them */
    int32_t ctc_zero_infinity; /**< of CTC, 1: sequences whose loss is infinite count 0 */
    dhow_device *const *devices; /**< that share each batch by its samples, the model's first, of
                                      any backends; NULL: the model's alone */
    uint32_t device_count;       /**< of `devices`, at most 64; one may be named twice */
    const double *shares;        /**< of each device, of any sum; NULL: equal ones to begin with */
    int32_t fixed_shares;        /**< 1: shares stay as they are; 0: they follow what is measured */
    int32_t
        skip_failed_devices; /**< 1: a device but the first that fails is left out from then on,
                                  and the step is made without it; 0: its failure is the step's */
    const dhow_process_group *process_group; /**< other processes; NULL: this one alone */
    int32_t detect_anomaly; /**< 1: a loss that is not finite fails the backward, before parameters
                                 change; the message names the step and the first tensor that is
                                 not, as torch.autograd.detect_anomaly. Gradients are dropped then.
                                 Each loss is waited for */
    double loss_scale; /**< what a loss is multiplied by before derivatives, which are divided by it
                            behind them, so that small ones are not 0 in f16. It halves with each
                            step whose gradients are not finite, which changes nothing else, and
                            doubles after so many others, as torch.amp.GradScaler: see
                            dhow_trainer_loss_scale(). 0: 65536 of a model of DHOW_PRECISION_F16,
                            others have none; each step waits for its gradients then */
    uint32_t loss_scale_interval; /**< of `loss_scale`: after how many steps it doubles; 0: 2000 */
    uint32_t checkpoint_segments; /**< above 1: parts of the model, of as many nodes each. All but
                                       the last keep nothing for the way back but what the next
                                       part reads, and compute the rest again: less memory for
                                       more time, as torch.utils.checkpoint's
                                       checkpoint_sequential */
    uint64_t bucket_bytes; /**< of several devices or processes: gradients travel in buckets of so
                                many bytes or more, from the last parameter to the first, each as
                                soon as it is made; there are 15 at most. Larger than all: when the
                                backward is over. 0: 25 MiB, as bucket_cap_mb of PyTorch. The first
                                process's is that of all */
} dhow_trainer_options;

/** How the learning rate goes on from step to step, n being the steps that were made before. */
typedef enum dhow_schedule_kind {
    DHOW_SCHEDULE_CONSTANT = 0,    /**< r */
    DHOW_SCHEDULE_STEP = 1,        /**< r gamma^floor(n / step_size), as StepLR */
    DHOW_SCHEDULE_EXPONENTIAL = 2, /**< r gamma^n, as ExponentialLR */
    DHOW_SCHEDULE_COSINE = 3,      /**< e + (r - e) (1 + cos(pi n / total_steps)) / 2 with e
                                        `eta_min`, as CosineAnnealingLR (Loshchilov and Hutter,
                                        2017); behind total_steps it rises again */
    DHOW_SCHEDULE_ONE_CYCLE = 4    /**< by cosines from r / div_factor up to r in step
                                        pct_start total_steps - 1, and down to r / (div_factor
                                        final_div_factor) in the last, where it stays: OneCycleLR
                                        (Smith and Topin, 2018), which leaves momenta alone */
} dhow_schedule_kind;

/** Names and formulas of PyTorch's torch.optim.lr_scheduler; r is the trainer's learning_rate. */
typedef struct dhow_schedule {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_schedule_kind kind;
    double gamma;            /**< 0: 0.1 of STEP; EXPONENTIAL wants one */
    uint64_t step_size;      /**< of STEP */
    uint64_t total_steps;    /**< of COSINE (there T_max) and ONE_CYCLE, without a warm-up */
    double eta_min;          /**< of COSINE */
    double pct_start;        /**< of ONE_CYCLE; 0: 0.3 */
    double div_factor;       /**< of ONE_CYCLE; 0: 25 */
    double final_div_factor; /**< of ONE_CYCLE; 0: 1e4 */
    uint64_t warmup_steps;   /**< that come before: its first rate, times start_factor + (1 -
                                  start_factor) n / warmup_steps, as LinearLR in a SequentialLR */
    double start_factor;     /**< 0: 1/3 */
} dhow_schedule;

/**
 * Prepares training on the model's device, with the parameters as they are.
 *
 * @param model    any whose parameters to train are of one type, f32 or f64
 * @param options  NULL for defaults: the output is the loss, SGD
 * @param out      receives the trainer; NULL on errors
 * @return UNSUPPORTED (an operator between parameters and loss has no derivative, or a device no
 * kernel; the message names the node), INVALID_ARGUMENT (no parameter matches, types differ,
 * numbers that make no sense, the model is not on the first of `devices` or leaves no extent open
 * to divide), OUT_OF_MEMORY, DEVICE_LOST, or what the process group says
 *
 * Ownership: *out is owned; the model is retained. Threads: externally synchronized per model.
 * Blocks: while parameters are copied; until all processes of the group have called it.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_create(dhow_model *model,
                                                        const dhow_trainer_options *options,
                                                        dhow_trainer **out);

/**
 * Releases a trainer; the model keeps its parameters.
 *
 * @param trainer  NULL is allowed
 *
 * Threads: one, once. Blocks: no.
 */
DHOW_API void dhow_trainer_release(dhow_trainer *trainer);

/**
 * Forward, loss, backward and the optimiser's step on a batch: its columns are the model's inputs
 * in order, then the target.
 *
 * @param trainer  whose parameters the step changes
 * @param batch    on the model's device; with dhow_trainer_options.devices on any, and best on the
 * CPU
 * @param loss     of the batch before the step, of all processes, unchanged on errors; NULL: it is
 * not waited for
 * @return INVALID_ARGUMENT (columns do not fit; the message names the tensor), UNSUPPORTED,
 * OUT_OF_MEMORY, DEVICE_LOST, INTERNAL, of several devices with the name of the one that failed, or
 * what the process group says; parameters are then those before. Only what a device tells after its
 * work was submitted, when the loss is read or in a later call, comes too late for that: load the
 * last checkpoint then. What a loss that is no number means is up to the caller; with
 * dhow_trainer_options.detect_anomaly it is INVALID_ARGUMENT
 *
 * Ownership: the batch stays the caller's. Threads: externally synchronized. Blocks: until the loss
 * is there, if it is asked for; a CPU computes at once. With several devices or processes or a
 * loss_scale until gradients are there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_step(dhow_trainer *trainer,
                                                      const dhow_batch *batch, double *loss);

/**
 * Forward, loss and backward alone: gradients are added to those that are there, until
 * dhow_trainer_zero_gradients(). Running statistics of batch norms follow; with a loss_scale only
 * if the batch's gradients are finite.
 *
 * @param trainer      to whose gradients they are added
 * @param stream       of the model's device, or NULL for its default stream
 * @param inputs       the model's, in order, where dhow_trainer_step() takes them
 * @param input_count  of inputs: as many as the model has
 * @param target       what the loss compares with; NULL for DHOW_LOSS_OUTPUT
 * @param loss         of the batch, of all processes, unchanged on errors; NULL: it is not waited
 * for
 * @return as dhow_trainer_step()
 *
 * Ownership: tensors live until the work has run. Threads: externally synchronized. Blocks: as
 * dhow_trainer_step(), with a loss_scale only where running statistics follow.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_backward(dhow_trainer *trainer,
                                                          dhow_stream *stream,
                                                          dhow_tensor *const *inputs,
                                                          uint32_t input_count, dhow_tensor *target,
                                                          double *loss);

/**
 * The optimiser's step with the gradients that are there, clipped if the options say so. They stay
 * until dhow_trainer_zero_gradients(), also those that are not finite, with which a loss_scale
 * leaves the step out: all steps are left out then until that is called, as in PyTorch.
 *
 * @param trainer  with gradients of dhow_trainer_backward()
 * @param stream   of the model's device, or NULL for its default stream
 * @return INVALID_ARGUMENT, UNSUPPORTED (no kernel), OUT_OF_MEMORY, DEVICE_LOST, INTERNAL
 *
 * Threads: externally synchronized. Blocks: a CPU computes at once, others do not but with a
 * loss_scale, where gradients are waited for.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_update(dhow_trainer *trainer, dhow_stream *stream);

/**
 * The next backward begins with gradients of 0.
 *
 * @param trainer  with gradients or without
 * @return INVALID_ARGUMENT
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_zero_gradients(dhow_trainer *trainer);

/**
 * How many parameters are trained.
 *
 * @param trainer  NULL or what is no trainer gives 0
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API uint32_t dhow_trainer_parameter_count(const dhow_trainer *trainer);

/**
 * A parameter as it is now and its gradient.
 *
 * @param trainer    whose steps change what the tensors hold
 * @param index      below dhow_trainer_parameter_count(), in the model's order
 * @param name       NULL, or receives its name, which the model keeps; unchanged on errors, as the
 * others
 * @param parameter  NULL, or receives the trainer's tensor
 * @param gradient   NULL, or receives the trainer's tensor; before a backward it holds nothing of
 * use
 * @return OUT_OF_RANGE, INVALID_ARGUMENT
 *
 * Ownership: both tensors are owned, release each. Threads: externally synchronized. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_parameter_at(const dhow_trainer *trainer,
                                                              uint32_t index, const char **name,
                                                              dhow_tensor **parameter,
                                                              dhow_tensor **gradient);

/**
 * Sets the learning rate of the steps to come.
 *
 * @param trainer  where it has a schedule, that begins from the rate
 * @param rate     finite, not negative
 * @return INVALID_ARGUMENT
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_set_learning_rate(dhow_trainer *trainer,
                                                                   double rate);

/**
 * The learning rate that the next step has.
 *
 * @param trainer  NULL or what is no trainer gives 0
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API double dhow_trainer_learning_rate(const dhow_trainer *trainer);

/**
 * What the next loss is multiplied by before it goes backward, see dhow_trainer_options.loss_scale.
 * Where it has become less, steps were left out.
 *
 * @param trainer  NULL or what is no trainer gives 0
 * @return 1 where losses are not scaled
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API double dhow_trainer_loss_scale(const dhow_trainer *trainer);

/**
 * Lets the learning rate follow a schedule. Steps are counted from the trainer's first one, those
 * of a checkpoint that it loaded included; dhow_trainer_set_learning_rate() changes the rate that
 * the schedule begins from.
 *
 * @param trainer   that follows it from its next step on
 * @param schedule  copied; NULL for none
 * @return INVALID_ARGUMENT (numbers that make no sense; the message names the field)
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_set_schedule(dhow_trainer *trainer,
                                                              const dhow_schedule *schedule);

/**
 * The learning rate of a step by itself, to look at a schedule before it is used.
 *
 * @param schedule       not NULL; begin with DHOW_INIT()
 * @param learning_rate  that it begins from, the trainer's; finite, not negative
 * @param step           from 0 on
 * @return NaN where numbers make no sense: dhow_last_error() names the field
 *
 * Threads: any. Blocks: no.
 */
DHOW_API double dhow_schedule_rate(const dhow_schedule *schedule, double learning_rate,
                                   uint64_t step);

/** Where the progress of a training is shown. */
typedef enum dhow_progress {
    DHOW_PROGRESS_TERMINAL = 0, /**< on stderr, where that is a terminal */
    DHOW_PROGRESS_ALWAYS = 1,   /**< on stderr; a line a second where that is no terminal */
    DHOW_PROGRESS_NEVER = 2
} dhow_progress;

/** What is told of a training's steps, see dhow_trainer_set_log(). */
typedef struct dhow_trainer_log {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    const char *path;     /**< a file of rows, "*.csv" or "*.jsonl", to which rows are added where
                               it is a log already; NULL: none */
    uint64_t every;       /**< steps a row; 0: 1 */
    uint64_t total_steps; /**< for the time that is left; 0: not known */
    dhow_progress progress;
    int32_t gradient_norm; /**< 1: rows have the L2 norm of all gradients together, before they are
                                clipped: one more pass over them */
} dhow_trainer_log;

/**
 * Tells of the steps to come: a row of a file for each, or for each of `every`, and a line on the
 * terminal. Columns: step (from 1 on), epoch (of a loader's batches), samples (since the log
 * began), seconds (the same), samples_per_second (since the row before), loss (before the step),
 * learning_rate, gradient_norm, memory_bytes (the most that tensors of the device held). JSON has
 * null where a number is not finite or not known, CSV nan, inf or nothing. The file is written row
 * by row. A row that cannot be written is warned of, and the training goes on. A step that a
 * loss_scale leaves out has no row, its samples are counted in the next; DHOW_LOG=info tells of it.
 *
 * @param trainer  whose steps are told; of a process group the first process is enough
 * @param log      copied; NULL ends the log
 * @return INVALID_ARGUMENT (a path of another kind), NOT_FOUND (no such folder), CORRUPT (the file
 * holds something else), IO_ERROR (of the file, or rows of the log before are missing: the new one
 * is set), OUT_OF_MEMORY
 *
 * Threads: externally synchronized. Blocks: no; steps that have a row then wait for their loss.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_set_log(dhow_trainer *trainer,
                                                         const dhow_trainer_log *log);

/**
 * Draws the losses of the log's rows so far as SVG: means of at most 1,024 equal parts, by powers
 * of ten where they fall to less than a twentieth.
 *
 * @param trainer  with a log
 * @param path     of the picture; it appears whole or not at all
 * @return INVALID_ARGUMENT (no log, no losses yet), IO_ERROR
 *
 * Threads: externally synchronized. Blocks: while it writes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_save_curve(dhow_trainer *trainer,
                                                            const char *path);

/**
 * How many devices share the batches of a trainer, failed ones included; 1 without
 * dhow_trainer_options.devices.
 *
 * @param trainer  NULL or what is no trainer gives 0
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API uint32_t dhow_trainer_member_count(const dhow_trainer *trainer);

/**
 * One of the devices that share the batches of a trainer: its share, how fast it was, whether it is
 * left out.
 *
 * @param trainer  with dhow_trainer_options.devices or without
 * @param index    below dhow_trainer_member_count(), in the order of dhow_trainer_options.devices
 * @param out      filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Threads: externally synchronized. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_member_at(const dhow_trainer *trainer,
                                                           uint32_t index,
                                                           dhow_parallel_member *out);

/**
 * Copies the parameters into the model, and the running statistics of its batch norms, for
 * prediction and dhow_model_save_state().
 *
 * @param trainer  whose model no thread runs
 * @return INVALID_ARGUMENT (another thread runs the model), OUT_OF_MEMORY, DEVICE_LOST
 *
 * Threads: externally synchronized per model and trainer. Blocks: until they are copied.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_update_model(dhow_trainer *trainer);

/**
 * Lets checkpoints hold where a loader stands: dhow_trainer_save() notes its epoch and its next
 * batch, and dhow_trainer_load() goes there, so that the batches to come are those that would have
 * come. The loader of a training that goes on is made with the seed, order, batch size and dataset
 * of the one that was saved.
 *
 * @param trainer  that is to be saved or loaded
 * @param loader   whose batches are given to dhow_trainer_step(); NULL: none any more
 * @return INVALID_ARGUMENT
 *
 * Ownership: the loader is retained. Threads: externally synchronized per trainer; saving and
 * loading also per loader. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_set_loader(dhow_trainer *trainer,
                                                            dhow_loader *loader);

/**
 * Saves what a training goes on with as one safetensors file, which appears whole or not at all:
 * the parameters and running statistics under their own names, the optimiser's state as
 * "optimizer.exp_avg.NAME" (words of PyTorch's optimisers), and the count of steps, the learning
 * rate, its schedule, the scale of losses, the state of dropout and where the loader of
 * dhow_trainer_set_loader() stands in `__metadata__`: behind the batch that it gave last, whose
 * step was made. Gradients that were not yet used are not saved.
 *
 * @param trainer  before its first step or after any
 * @param path     of the file, which is replaced
 * @return INVALID_ARGUMENT, IO_ERROR, OUT_OF_MEMORY, DEVICE_LOST
 *
 * Threads: externally synchronized. Blocks: until the steps have run and the file is on the disk.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_save(dhow_trainer *trainer, const char *path);

/**
 * Goes on where dhow_trainer_save() was, on this or another device: on the same kind of device,
 * with the same options and batches, the steps to come give the same bits. The learning rate, the
 * seed, the schedule and the scale of losses become those of the file, and the latter two stay
 * where the file has none; the other options stay the trainer's. A loader of
 * dhow_trainer_set_loader() goes to its batch.
 *
 * @param trainer  with the parameters and the optimiser of the one that was saved
 * @param path     of a file of dhow_trainer_save()
 * @return INVALID_ARGUMENT (no checkpoint, another optimiser, a tensor of another shape or type,
 * one that is not trained here, a loader that gives other batches; the message names it), NOT_FOUND
 * (no file, or a tensor or the place of a loader that it lacks), IO_ERROR, CORRUPT, UNSUPPORTED,
 * OUT_OF_MEMORY, DEVICE_LOST; a file that does not fit changes nothing
 *
 * Threads: externally synchronized. Blocks: while it reads.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_trainer_load(dhow_trainer *trainer, const char *path);

/**
 * Draws the parameters of the layers of a model that was built in C as PyTorch's layers begin:
 * linear layers and all convolutions uniform within 1 / sqrt(inputs of one output), biases too;
 * LSTMs within 1 / sqrt(hidden); the weights of attention's heads within sqrt(6 / (4 features))
 * (Glorot and Bengio, 2010), its last product as a linear layer without a bias; embeddings normal.
 * The numbers come from SplitMix64 (Steele et al., 2014) of the seed and the parameter's position,
 * so they are the same everywhere. Other parameters stay as they are; norms begin with weights
 * of 1.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param seed   any
 * @return INVALID_ARGUMENT (no model, or it is running), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: while the numbers are drawn.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_init_parameters(dhow_model *model, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_TRAIN_H_ */
