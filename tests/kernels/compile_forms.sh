#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles every unit and type in the forms that no test here runs: with K_LINT, as OpenCL C 1.2 for GPUs and for CPUs
# (clang), and as CUDA (nvcc), where registers are compared with registers.txt and no spill is allowed.
#   compile_forms.sh lint|opencl|cuda <compiler> <repository> <work folder> <unit:type:isas>...
#   compile_forms.sh registers <compiler> <repository> <work folder> <work folder of cuda>...
# CUDA figures that changed on purpose: copy <work folder>/registers.txt over tests/kernels/registers.txt. The folder
# KERNEL_TEXTS holds the kernels as PTX of sm_90; without one it is compiled, and kernels of 64-bit indices are left out.
set -eu
form=$1 cc=$2 root=$3 work=$4
shift 4
here=$root/tests/kernels
mkdir -p "$work"
failed=0

lint() {
    "$cc" -x c -std=c11 -fsyntax-only -fopenmp-simd -Wall -Wno-tautological-compare -Werror -DK_LINT -DT="$2" \
        -I"$root/include" "$root/kernels/$1.k"
}

opencl() {
    sh "$here/opencl_text.sh" cc "$root/include" "$root/kernels/$1.k" -DT="$2" >"$work/$1.cl" || return 1
    set -- "$1" "$2" "" "-DK_IDX64" "-DK_LOOPS -DK_IDX64"
    # Vectors are as wide as the processor's, which PoCL's compiler says by its macros.
    grep -qw -e LANES -e panels "$root/kernels/$1.k" &&
        set -- "$@" "-DK_LOOPS -DK_IDX64 -D__AVX__" "-DK_LOOPS -DK_IDX64 -D__AVX__ -D__AVX512F__"
    unit=$1 type=$2
    shift 2
    for model; do
        # shellcheck disable=SC2086
        "$cc" -x cl -cl-std=CL1.2 -target spir64 -Xclang -finclude-default-header -Xclang -fdeclare-opencl-builtins -Wall -Werror -Wno-unused-function \
            -Wno-unused-variable -Wno-tautological-compare -Wno-pass-failed -I"$root/include" -I"$root/kernels" -DT="$type" $model \
            -fsyntax-only "$work/$unit.cl" || return 1
    done
    case $type in f32 | f16 | u32) scratch "$unit" "$type" ;; esac # one that each unit has
}

# On AMD's GPUs: a struct that is indexed at run time is copied to memory by each item. What calls of unknown functions may
# want, 16384 bytes, is there in any case. Room that no instruction uses is counted by newer compilers where scalar
# registers went to lanes of a vector register.
scratch() {
    "$cc" --print-targets | grep -q amdgcn || return 0
    "$cc" -x cl -cl-std=CL1.2 -target amdgcn-amd-amdhsa -mcpu=gfx90a -nogpulib -w -Xclang -finclude-default-header -Xclang -fdeclare-opencl-builtins \
        -I"$root/include" -I"$root/kernels" -DT="$2" -O2 -S -o "$work/$1.s" "$work/$1.cl" || return 1
    awk '/\t(scratch|buffer)_(load|store)_.*/ && (/\tscratch_/ || /s\[0:3\]/) { used = 1 }
        /\.amdhsa_kernel/ { name = $2 }
        /amdhsa_private_segment_fixed_size/ && used && $2 != 0 && $2 != 16384 {
            print name " keeps " $2 " bytes of each item in memory"
            failed = 1
        }
        /\.end_amdhsa_kernel/ { used = 0 }
        END { exit failed }' "$work/$1.s"
}

# One line per kernel: architecture, index bits, name, registers; spills and local memory go to "spilled".
registers_of() { # <name of the work> <index bits> <flag or file>...
    name=$1 bits=$2
    shift 2
    "$cc" --fatbin -Xptxas -v -o "$work/$name.fatbin" "$@" 2>"$work/$name.log" || { cat "$work/$name.log"; return 1; }
    awk -v bits="$bits" -v spilled="$work/spilled" '
        /Compiling entry function/ { split($0, part, "\047"); name = part[2]; arch = substr(part[4], 4) }
        /spill stores/ { if ($0 !~ /0 bytes stack frame, 0 bytes spill stores/) print arch, bits, name, $0 >>spilled }
        /Used [0-9]+ registers/ { match($0, /Used [0-9]+/); print arch, bits, name, substr($0, RSTART + 5, RLENGTH - 5) }
    ' "$work/$name.log" >>"$work/lines"
}

# One type of every unit, and where tensor cores make another form, for each architecture: the text of sm_90 is there, and
# the assembler makes of it what it makes of that of sm_100. Of types that have forms of their own the oldest and sm_90,
# of the others sm_90.
cuda() {
    codes='' text='-gencode=arch=compute_90,code=sm_90'
    case $2 in f32 | f16 | i32 | i64 | u32) codes=-gencode=arch=compute_75,code=sm_75 ;; esac
    case $1:$2 in *:f32 | layout:u32 | attention:f16 | nbits:f16)
        text='-gencode=arch=compute_90,code=[sm_90,sm_100]'
        codes="$codes -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_120,code=sm_120" ;;
    esac
    if [ -n "${KERNEL_TEXTS:-}" ]; then
        registers_of "$1.$2.64" 64 -arch=sm_90 "$KERNEL_TEXTS/$1.$2.64.ptx" || return 1
        registers_of "$1.$2.90" 32 "$text" "$KERNEL_TEXTS/$1.$2.32.ptx" || return 1
    else
        codes="$codes $text"
    fi
    # shellcheck disable=SC2086
    [ -z "$codes" ] || registers_of "$1.$2" 32 -x cu -std=c++17 $codes -DT="$2" -I"$root/include" "$root/kernels/$1.k"
}

# What the parts of cuda have found, against the figures that are known.
if [ "$form" = registers ]; then
    {
        "$cc" --version | sed -n 's/^Cuda compilation tools, /# /p'
        for part in "$@"; do cat "$part/lines"; done | LC_ALL=C sort -u
    } >"$work/registers.txt"
    if ! grep -q '^90 64 ' "$work/registers.txt"; then
        echo "no texts of kernels with 64-bit indices; only spills are checked"
    elif [ "$(sed -n 1p "$work/registers.txt")" = "$(sed -n 1p "$here/registers.txt")" ]; then
        diff "$here/registers.txt" "$work/registers.txt" || { echo "registers changed (old <, new >)"; failed=1; }
    else
        echo "another nvcc than registers.txt was made with; only spills are checked"
    fi
    exit $failed
fi
if [ "$form" = cuda ]; then
    rm -f "$work/lines" "$work/spilled"
    : >"$work/spilled"
fi
for entry in "$@"; do
    unit=${entry%%:*} rest=${entry#*:}
    "$form" "$unit" "${rest%%:*}" || { echo "FAILED: $form ${entry%%:*} ${rest%%:*}"; failed=1; }
done
[ "$form" = cuda ] || exit $failed

if [ -s "$work/spilled" ]; then
    echo "kernels that spill or use local memory:"
    cat "$work/spilled"
    # Library functions of double precision keep tables and slow paths in local memory, so does the sine that map has;
    # the windows of three dimensions and, on GPUs, recurrent layers with uncommon options are general forms that nothing
    # hot uses. Kernels of 64-bit indices, which tensors of 2^31 elements want, may spill 16 bytes, and on sm_90
    # pooling of bytes and the direct convolution of 16 bits, which models do not use there. Others may not.
    grep -vE '_f64 | map_| (pool3d|maxpool3d_index|conv3d|conv_transpose3d|recurrent)_|^90 (64 [a-z0-9_]+|32 ([a-z0-9_]+_(u8|i8)|conv2d_tiled_(f16|bf16))) +(8|16) bytes stack' \
        "$work/spilled" && failed=1
fi
exit $failed
